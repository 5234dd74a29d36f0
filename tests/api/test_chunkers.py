"""The chunker of a knowledge base: its name and its options."""

import httpx2
import pytest

from app.ingestion.chunkers import CHUNKERS
from harness.running_service import Tenant
from tests.api.problems import assert_problem

ROUTE = "/v1/knowledge-bases"
TEXT = (
    "# Whales\n\nWhales sing. Whales dive.\n\n## Food\n\nThey eat krill.\n\n# Bread\n\nKnead the dough. Bake the dough."
)


def chunks(admin: httpx2.Client, kb: str, document: str) -> list[str]:
    reply = admin.get(f"{ROUTE}/{kb}/documents/{document}/chunks")
    return [chunk["text"] for chunk in reply.json()["items"]]


@pytest.mark.capability("chunker-all")
@pytest.mark.parametrize("strategy", CHUNKERS)
def test_every_chunker_ingests_a_document(tenant: Tenant, strategy: str) -> None:
    chunking = {"strategy": strategy, "max_tokens": 40, "overlap_tokens": 0}
    tenant.admin.post(ROUTE, json={"name": "k", "chunking": chunking}).raise_for_status()
    document = tenant.add_text(TEXT, kb="k", media_type="text/markdown")
    found = chunks(tenant.admin, "k", document["id"])
    if strategy == "sentence":
        assert found == ["Whales\n\nWhales sing.", "Whales dive.", "Food\n\nThey eat krill.",
                         "Bread\n\nKnead the dough.", "Bake the dough."]  # fmt: skip
    else:
        assert found == ["Whales\n\nWhales sing. Whales dive.", "Food\n\nThey eat krill.",
                         "Bread\n\nKnead the dough. Bake the dough."]  # fmt: skip
    results = tenant.admin.post(f"{ROUTE}/k/search", json={"query": "whales dive"}).json()["results"]
    assert "dive" in results[0]["text"]


@pytest.mark.capability("chunker-options")
def test_chunker_options_are_stored_with_defaults(tenant: Tenant) -> None:
    chunking = {"strategy": "semantic", "options": {"percentile": 80}}
    made = tenant.admin.post(ROUTE, json={"name": "k", "chunking": chunking}).json()
    assert made["chunking"] == {
        "strategy": "semantic",
        "max_tokens": 170,
        "overlap_tokens": 0,
        "options": {"percentile": 80, "buffer": 1, "min_tokens": 50},
    }
    assert tenant.admin.get(f"{ROUTE}/k").json()["chunking"] == made["chunking"]


@pytest.mark.capability("chunker-invalid")
@pytest.mark.parametrize(
    ("chunking", "name"),
    [
        ({"strategy": "semantic", "options": {"percentile": 100}}, "percentile"),
        ({"strategy": "semantic", "options": {"guess": 1}}, "guess"),
        ({"options": {"percentile": 80}}, "percentile"),
        ({"strategy": "sentence", "options": {"sentences": "a\0b"}}, "sentences"),
    ],
)
def test_chunker_invalid_options_are_422(tenant: Tenant, chunking: dict[str, object], name: str) -> None:
    found = assert_problem(tenant.admin.post(ROUTE, json={"name": "k", "chunking": chunking}), 422, "invalid")
    assert found["errors"][0]["loc"] == ["body", "chunking", "options", name]


@pytest.mark.capability("chunker-listed")
def test_capabilities_list_chunker_options(tenant: Tenant) -> None:
    found = {one["name"]: one["options"] for one in tenant.admin.get("/v1/capabilities").json()["chunkers"]}
    assert found.keys() == CHUNKERS.keys()
    assert found["semantic"]["properties"]["options"]["properties"]["percentile"]["default"] == 90
    assert found["headered"]["properties"]["options"]["properties"].keys() == {"pages"}
    assert found["headered"]["properties"]["max_tokens"]["default"] is None

"""Graph settings of knowledge bases: which entities chunks get, and what a reindex changes."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.cli.commands import printed

HANG_SECONDS = 60.0
BASE = "/v1/knowledge-bases/default"


def describe(tenant: Tenant, kb: str = "default") -> dict[str, Any]:
    found: dict[str, Any] = tenant.admin.get(f"/v1/knowledge-bases/{kb}").json()
    return found


def reindex(tenant: Tenant) -> None:
    tenant.admin.post(f"{BASE}/reindex").raise_for_status()
    end = time.monotonic() + HANG_SECONDS
    while describe(tenant)["reindex"] is not None:
        assert time.monotonic() < end
        time.sleep(0.05)


def list_entities(tenant: Tenant, kb: str = "default") -> set[str]:
    reply = tenant.admin.get(f"/v1/knowledge-bases/{kb}/entities", params={"limit": 200})
    reply.raise_for_status()
    return {item["name"] for item in reply.json()["items"]}


def test_new_knowledge_base_has_graph_by_default(tenant: Tenant) -> None:
    found = describe(tenant)
    assert found["graph"] == {"enabled": True, "metadata_keys": [], "extractors": []}
    assert (found["index"]["action"], found["index"]["problem"]) == (None, None)


@pytest.mark.capability("graph-metadata")
def test_metadata_keys_of_new_knowledge_base_are_entities(tenant: Tenant) -> None:
    body = {"name": "papers", "graph": {"metadata_keys": ["author", "author"]}}
    created = tenant.admin.post("/v1/knowledge-bases", json=body)
    assert created.status_code == 201, created.text
    assert created.json()["graph"] == {"enabled": True, "metadata_keys": ["author"], "extractors": []}
    tenant.add_text("the sea is cold.", kb="papers", metadata={"author": "Mira Vale", "editor": "Bob Jones"})
    assert "Mira Vale" in list_entities(tenant, "papers")
    assert "Bob Jones" not in list_entities(tenant, "papers")


def test_changed_metadata_value_replaces_its_entity(tenant: Tenant) -> None:
    tenant.admin.post(
        "/v1/knowledge-bases", json={"name": "papers", "graph": {"metadata_keys": ["author"]}}
    ).raise_for_status()
    document = tenant.add_text("the sea is cold.", kb="papers", metadata={"author": "Mira Vale"})
    path = f"/v1/knowledge-bases/papers/documents/{document['id']}"
    other = tenant.admin.patch(path, json={"metadata": {"author": "Mira Vale", "year": 2026}}).json()
    assert other["status"] == "ready"
    changed = tenant.admin.patch(path, json={"metadata": {"author": "Bob Jones"}}).json()
    assert changed["status"] == "queued"
    end = time.monotonic() + HANG_SECONDS
    while tenant.admin.get(path).json()["status"] != "ready":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert list_entities(tenant, "papers") == {"Bob Jones"}


@pytest.mark.capability("graph-off")
def test_knowledge_base_without_graph_searches_with_hybrid(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "plain", "graph": {"enabled": False}}).raise_for_status()
    tenant.add_text("Here, Mira Vale meets Bob Jones.", kb="plain")
    assert list_entities(tenant, "plain") == set()
    body = {"query": "Mira Vale", "strategy": "graph_rag"}
    reply = tenant.admin.post("/v1/knowledge-bases/plain/search", json=body).json()
    assert len(reply["results"]) == 1
    assert "graph_missing" in [warning["code"] for warning in reply["warnings"]]
    assert describe(tenant, "plain")["index"]["action"] is None


def test_changed_settings_need_reindex_and_apply_after_it(tenant: Tenant) -> None:
    tenant.add_text("the sea is cold.", metadata={"author": "Mira Vale"})
    assert list_entities(tenant) == set()
    changed = tenant.admin.patch(BASE, json={"graph": {"metadata_keys": ["author"]}}).json()
    assert changed["graph"] == {"enabled": True, "metadata_keys": ["author"], "extractors": []}
    assert changed["index"]["action"] == "reindex"
    assert "graph of other settings" in changed["index"]["problem"]
    assert list_entities(tenant) == set()
    reindex(tenant)
    assert (list_entities(tenant), describe(tenant)["index"]["action"]) == ({"Mira Vale"}, None)
    tenant.admin.patch(BASE, json={"graph": {"enabled": False}}).raise_for_status()
    assert "switch off" in describe(tenant)["index"]["problem"]
    reindex(tenant)
    assert (list_entities(tenant), describe(tenant)["index"]["action"]) == (set(), None)


def test_index_from_before_the_graph_needs_reindex(service: Service, tenant: Tenant) -> None:
    """An upgrade leaves such rows: the settings switch the graph on, and the search index has none."""
    tenant.add_text("Here, Mira Vale meets Bob Jones.")

    async def remove_graph() -> None:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            tenant_id = decode_id("ten", tenant.id)
            await connection.execute("delete from chunk_entity where tenant_id = $1", tenant_id)
            await connection.execute("delete from entity where tenant_id = $1", tenant_id)
            await connection.execute("update search_index set graph = null where tenant_id = $1", tenant_id)
        finally:
            await connection.close()

    asyncio.run(remove_graph())
    index = describe(tenant)["index"]
    assert index["action"] == "reindex"
    assert "has no graph yet" in index["problem"]
    assert len(tenant.admin.post(f"{BASE}/search", json={"query": "Mira Vale"}).json()["results"]) == 1
    tenant.add_text("Then, Mira Vale leaves.")
    assert list_entities(tenant) == set()
    reindex(tenant)
    assert "Mira Vale" in list_entities(tenant)
    assert describe(tenant)["index"]["action"] is None


@pytest.mark.parametrize("strategy", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("filters", [None, {"part": 1}], ids=["all", "filtered"])
def test_other_strategies_have_equal_results_with_and_without_graph(
    service: Service, strategy: str, filters: dict[str, int] | None
) -> None:
    tenant = service.create_tenant()
    for name, enabled in (("with", True), ("without", False)):
        settings = {"name": name, "graph": {"enabled": enabled, "metadata_keys": ["author"]}}
        tenant.admin.post("/v1/knowledge-bases", json=settings).raise_for_status()
        for number, text in enumerate(("Mira Vale met Bob Jones.", "Bob Jones sails F-16.", "the sea is cold.")):
            metadata = {"author": "Mira Vale", "part": number % 2}
            tenant.add_text(text, kb=name, external_id=str(number), metadata=metadata)
    replies = []
    for name in ("with", "without"):
        body: dict[str, Any] = {"query": "Where does Mira Vale sail?", "strategy": strategy, "filter": filters}
        reply = tenant.admin.post(f"/v1/knowledge-bases/{name}/search", json=body)
        replies.append([(one["text"], one["score"], one["scores"]) for one in reply.json()["results"]])
    assert replies[0] == replies[1]
    assert replies[0]


@pytest.mark.parametrize(
    "graph",
    [None, {"enabled": "perhaps"}, {"metadata_keys": [""]}, {"metadata_keys": [5]}, {"metadata_keys": ["x"] * 21},
     {"unknown": 1}],
    ids=str,
)  # fmt: skip
def test_invalid_settings_are_422(tenant: Tenant, graph: object) -> None:
    for reply in (
        tenant.admin.post("/v1/knowledge-bases", json={"name": "new", "graph": graph}),
        tenant.admin.patch(BASE, json={"graph": graph}),
    ):
        assert reply.status_code == 422
        assert "graph" in reply.text


def test_archive_carries_graph_settings(tenant: Tenant, tmp_path: Path) -> None:
    body = {"name": "papers", "graph": {"metadata_keys": ["author"]}}
    tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    tenant.add_text("the sea is cold.", kb="papers", metadata={"author": "Mira Vale"})
    run = partial(printed, url=tenant.service.url, key=tenant.key)
    archive = str(tmp_path / "papers.tar")
    run("export", "papers", "--to", archive)
    run("import", archive, "--kb", "copy")
    assert describe(tenant, "copy")["graph"] == {"enabled": True, "metadata_keys": ["author"], "extractors": []}
    assert list_entities(tenant, "copy") == list_entities(tenant, "papers") == {"Mira Vale"}

"""Reindexing of a knowledge base over HTTP, with a worker, during searches and writes."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

HANG_SECONDS = 60
OLD, NEW = 64, 32
KB = "/v1/knowledge-bases/default"
BIRDS = ["heron", "otter", "moss", "reed", "stone", "night", "river", "gull"]


@dataclass(frozen=True)
class TwoModelService:
    """A service with two embedding models, the first of which is the default."""

    service: Service
    old: EmbeddingServer
    new: EmbeddingServer


@pytest.fixture(scope="module")
def world(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoModelService]:
    with EmbeddingServer(dimensions=OLD) as old, EmbeddingServer(dimensions=NEW) as new:
        further = {"model": f"words-{NEW}", "base_url": new.base_url, "dimensions": NEW}
        settings = build_settings(
            tmp_path_factory.mktemp("data"),
            embedding={
                "CARREL_EMBEDDING_BASE_URL": old.base_url,
                "CARREL_EMBEDDING_DIMENSIONS": OLD,
                "CARREL_EMBEDDING_MODEL": f"words-{OLD}",
                "CARREL_EMBEDDING_MODELS": json.dumps([further]),
            },
            parser={"CARREL_PARSER_PROCESSES": 1},
        )
        with run_service(settings, make_database()) as service:
            yield TwoModelService(service, old, new)


@pytest.fixture
def tenant(world: TwoModelService) -> Tenant:
    return world.service.create_tenant()


def text(number: int) -> str:
    """Return some sections of some sentences, long enough for different chunk sizes."""
    parts = []
    for part, word in enumerate(BIRDS):
        sentences = " ".join(f"The {word} of volume{number} says {each} in part {part}." for each in range(12))
        parts.append(f"# About the {word}\n\n{sentences}")
    return "\n\n".join(parts)


def fill(tenant: Tenant, count: int = 4) -> list[str]:
    made = [tenant.add_text(text(number), external_id=f"d{number}") for number in range(count)]
    assert {one["status"] for one in made} == {"ready"}
    return [one["id"] for one in made]


def seen(tenant: Tenant) -> dict[str, Any]:
    found: dict[str, Any] = tenant.admin.get(KB).json()
    return found


def reindexed(tenant: Tenant) -> dict[str, Any]:
    """Return the knowledge base after the reindexing has ended."""
    found: dict[str, Any] = until(lambda: (kb := seen(tenant))["reindex"] is None and kb)
    return found


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + HANG_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
    return found


def search(tenant: Tenant, query: str, **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post(f"{KB}/search", json={"query": query, "top_k": 100, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.capability("reindex-swap")
def test_reindex_with_other_model_and_chunking_replaces_all_chunks(tenant: Tenant) -> None:
    documents = fill(tenant)
    before = seen(tenant)
    assert (before["reindex"], before["rollback_until"]) == (None, None)
    wishes = {"embedding": {"model": f"words-{NEW}"}, "chunking": {"max_tokens": 32, "overlap_tokens": 0}}
    reply = tenant.admin.post(f"{KB}/reindex", json=wishes)
    assert reply.status_code == 202, reply.text
    begun = reply.json()["reindex"]
    assert (begun["state"], begun["error"], begun["total"]) == ("building", None, len(documents))
    assert begun["embedding"] == {"model": f"words-{NEW}", "dimensions": NEW}
    assert begun["chunking"] == {"strategy": "headered", "max_tokens": 32, "overlap_tokens": 0}
    assert begun["language"] == "english"
    after = reindexed(tenant)
    assert after["embedding"] == begun["embedding"]
    assert after["chunking"] == begun["chunking"]
    assert after["chunk_count"] > before["chunk_count"]
    assert after["rollback_until"] is not None
    assert after["document_count"] == len(documents)
    for strategy in ("dense", "lexical", "hybrid"):
        found = search(tenant, "the heron of volume2", strategy=strategy)
        assert found["warnings"] == []
        assert "heron of volume2" in found["results"][0]["text"]
    chunks = tenant.admin.get(f"{KB}/documents/{documents[0]}/chunks", params={"limit": 200}).json()["items"]
    document = tenant.admin.get(f"{KB}/documents/{documents[0]}").json()
    assert len(chunks) == document["chunk_count"] == after["chunk_count"] / len(documents)
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(len(chunks)))


@pytest.mark.capability("reindex-rollback")
def test_reindex_rollback_restores_previous_generation(tenant: Tenant) -> None:
    documents = fill(tenant)
    before = seen(tenant)
    tenant.admin.post(f"{KB}/reindex", json={"chunking": {"max_tokens": 32, "overlap_tokens": 0}}).raise_for_status()
    assert reindexed(tenant)["chunk_count"] > before["chunk_count"]
    # The rolled-back generation includes the changes since the switch.
    tenant.admin.delete(f"{KB}/documents/{documents[0]}").raise_for_status()
    tenant.add_text("The heron is another now.", external_id="d1")
    late = tenant.add_text("A bittern has come in late.")
    tenant.admin.patch(f"{KB}/documents/{documents[2]}", json={"metadata": {"year": 2024}}).raise_for_status()
    rolled_back = tenant.admin.post(f"{KB}/reindex/rollback")
    assert rolled_back.status_code == 202
    assert rolled_back.json()["reindex"]["chunking"] == before["chunking"]
    after = reindexed(tenant)
    assert after["chunking"] == before["chunking"]
    assert after["chunk_count"] == before["chunk_count"] // 4 * 2 + 2
    assert search(tenant, "bittern")["results"][0]["document"]["id"] == late["id"]
    assert {one["document"]["id"] for one in search(tenant, "heron")["results"]} == {*documents[1:], late["id"]}
    assert {one["document"]["id"] for one in search(tenant, "heron", filter={"year": 2024})["results"]} == {
        documents[2]
    }
    assert (
        search(tenant, "heron", filter={"$document_id": documents[1]})["results"][0]["text"]
        == "The heron is another now."
    )
    # A second rollback returns to the new generation.
    tenant.admin.post(f"{KB}/reindex/rollback").raise_for_status()
    assert reindexed(tenant)["chunking"]["max_tokens"] == 32


def test_reindex_without_target_is_409_or_404(tenant: Tenant) -> None:
    assert_problem(tenant.admin.post(f"{KB}/reindex/rollback"), 409, "nothing_to_roll_back")
    assert_problem(tenant.admin.delete(f"{KB}/reindex"), 404, "reindex_not_found")
    assert_problem(tenant.admin.post("/v1/knowledge-bases/nothing/reindex"), 404, "knowledge_base_not_found")


@pytest.mark.capability("reindex-one")
def test_reindex_searches_see_one_generation(tenant: Tenant) -> None:
    """At any time and in every strategy, a search sees all chunks of one generation and none of another."""
    fill(tenant, 2)
    tenant.add_text("A line.")
    answers: list[frozenset[tuple[str, str]]] = []

    def look() -> frozenset[tuple[str, str]]:
        """Return all chunks that one search sees."""
        strategy = ("dense", "lexical", "hybrid")[len(answers) % 3]
        query = "heron otter moss reed stone night river gull line"
        found = search(tenant, query, strategy=strategy, top_k=500)
        assert found["warnings"] == []
        return frozenset((one["chunk_id"], one["text"]) for one in found["results"])

    whole = [look()]
    for size in (40, 80):
        answers.append(look())
        body = {"chunking": {"max_tokens": size, "overlap_tokens": 0}}
        tenant.admin.post(f"{KB}/reindex", json=body).raise_for_status()
        while seen(tenant)["reindex"] is not None:
            answers.append(look())
        answers.append(look())
        whole.append(answers[-1])
    assert len(set(whole)) == 3
    assert min(map(len, whole)) > 4
    assert set(answers) <= set(whole)
    assert len(answers) > 6


def test_reindex_with_other_settings_while_running_is_409(world: TwoModelService, tenant: Tenant) -> None:
    fill(tenant, 2)
    wishes = {"embedding": {"model": f"words-{NEW}"}}
    world.new.fail("slow", times=None, seconds=HANG_SECONDS)
    try:
        first = tenant.admin.post(f"{KB}/reindex", json=wishes).json()["reindex"]
        again = tenant.admin.post(f"{KB}/reindex", json=wishes)
        assert again.status_code == 202
        assert again.json()["reindex"]["started_at"] == first["started_at"]
        for other in ({}, {"embedding": {"model": f"words-{OLD}"}}, {**wishes, "language": "german"}):
            assert_problem(tenant.admin.post(f"{KB}/reindex", json=other), 409, "reindex_in_progress")
        assert_problem(tenant.admin.post(f"{KB}/reindex/rollback"), 409, "reindex_in_progress")
        assert tenant.admin.get("/v1/knowledge-bases").json()["items"][0]["reindex"]["state"] == "building"
        # The live generation is searchable during that time.
        assert search(tenant, "heron")["results"]
        assert tenant.admin.delete(f"{KB}/reindex").status_code == 204
        assert (seen(tenant)["reindex"], seen(tenant)["rollback_until"]) == (None, None)
        assert_problem(tenant.admin.delete(f"{KB}/reindex"), 404, "reindex_not_found")
    finally:
        world.new.reset()
    assert seen(tenant)["embedding"]["dimensions"] == OLD


def test_reindex_with_refusing_model_fails_and_can_continue(world: TwoModelService, tenant: Tenant) -> None:
    """The reindexing reports the failure, and continues on request."""
    fill(tenant, 1)
    world.new.fail(400, times=None)
    tenant.admin.post(f"{KB}/reindex", json={"embedding": {"model": f"words-{NEW}"}}).raise_for_status()
    failed = until(lambda: (found := seen(tenant)["reindex"])["state"] == "failed" and found)
    assert failed["error"]["code"] == "embedding_rejected"
    assert failed["error"]["document"].startswith("doc_")
    # Unlike a running reindexing, a failed one would not end by waiting.
    refused = assert_problem(tenant.admin.post(f"{KB}/reindex"), 409, "reindex_in_progress")
    assert "or has failed. Wait for it, repeat it with the same settings, or cancel it" in refused["detail"]
    assert search(tenant, "heron")["results"]
    world.new.reset()
    tenant.admin.post(f"{KB}/reindex", json={"embedding": {"model": f"words-{NEW}"}}).raise_for_status()
    assert reindexed(tenant)["embedding"]["dimensions"] == NEW


def test_reindex_with_unavailable_model_reports_error_and_retries(world: TwoModelService, tenant: Tenant) -> None:
    fill(tenant, 1)
    world.new.fail(503, times=None)
    tenant.admin.post(f"{KB}/reindex", json={"embedding": {"model": f"words-{NEW}"}}).raise_for_status()
    waits = until(lambda: (found := seen(tenant)["reindex"])["last_error"] and found)
    assert (waits["state"], waits["error"]) == ("building", None)
    assert waits["last_error"]["code"] == "embedding_unavailable"
    assert set(waits["last_error"]) == {"code", "message"}
    world.new.reset()
    assert reindexed(tenant)["embedding"]["dimensions"] == NEW


def test_reindex_with_other_language_changes_terms(tenant: Tenant) -> None:
    tenant.add_text("Die Häuser am Fluss sind alt.")
    assert search(tenant, "Haus", strategy="lexical")["results"] == []
    tenant.admin.post(f"{KB}/reindex", json={"language": "german"}).raise_for_status()
    assert reindexed(tenant)["language"] == "german"
    assert len(search(tenant, "Haus", strategy="lexical")["results"]) == 1
    tenant.add_text("Ein Haus auf dem Berg.")
    assert len(search(tenant, "Häuser", strategy="lexical")["results"]) == 2


@pytest.mark.parametrize(
    "wishes",
    [
        {"embedding": {"model": "nobody's"}}, {"embedding": {"dimensions": 7}}, {"language": "klingon"},
        {"chunking": {"strategy": "guess"}}, {"chunking": {"max_tokens": 15}}, {"chunking": {"max_tokens": 8192}},
        {"chunking": {"max_tokens": 20, "overlap_tokens": 20}}, {"chunking": {"options": {"x": 1}}}, {"name": "new"},
        {"embedding": None},
    ],
    ids=ascii,
)  # fmt: skip
def test_reindex_with_invalid_settings_is_422(tenant: Tenant, wishes: dict[str, Any]) -> None:
    assert_problem(tenant.admin.post(f"{KB}/reindex", json=wishes), 422, "invalid")
    assert seen(tenant)["reindex"] is None


@pytest.mark.parametrize("setting", ["embedding", "chunking", "language"])
def test_patch_of_index_settings_names_reindex_route(tenant: Tenant, setting: str) -> None:
    found = assert_problem(tenant.admin.patch(KB, json={setting: {"max_tokens": 100}, "title": "New"}), 422, "invalid")
    assert setting in str(found["errors"])
    assert "reindex" in str(found["errors"])
    assert seen(tenant)["title"] == "default"


def test_reindex_with_user_key_is_403(tenant: Tenant) -> None:
    client = tenant.create_client("admin", user_id="u")
    for method, path in (("POST", ""), ("POST", "/rollback"), ("DELETE", "")):
        assert_problem(client.request(method, f"{KB}/reindex{path}"), 403, "forbidden")


def test_tree_during_reindex_has_text_in_leaves(tenant: Tenant) -> None:
    """A node without children has its text, whichever generation added it."""
    (document,) = fill(tenant, 1)

    def kinds(node: dict[str, Any]) -> Iterator[str]:
        assert (node["text"] is None) == bool(node["children"])
        yield node["kind"]
        for child in node["children"]:
            yield from kinds(child)

    told = []
    for chunking in ({"strategy": "sentence"}, {"strategy": "hierarchical", "max_tokens": 32, "overlap_tokens": 0}):
        tenant.admin.post(f"{KB}/reindex", json={"chunking": chunking}).raise_for_status()
        assert reindexed(tenant)["chunking"]["strategy"] == chunking["strategy"]
        told.append(list(kinds(tenant.admin.get(f"{KB}/documents/{document}/tree").json()["root"])))
    assert "sentence" in told[0]
    assert "topic" not in told[0]
    assert {"sentence", "topic"} <= set(told[1])
    assert [kind for kind in told[1] if kind != "topic"] == told[0]
    parent = search(tenant, "heron", expand="parent", top_k=1)["results"][0]
    assert len(parent["text"]) > 200

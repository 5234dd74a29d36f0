"""Search index of an older analyzer: searches and uploads work as before, and a reindex brings it up to date."""

import time
from typing import Any

import asyncpg
import pytest

from app.ids import decode_id
from app.lexical.weights import build_entry, compute_salt
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

# Texts with their terms of version 1.
STORED = {
    "The dose is 10mg a day.": ["dose", "10mg", "day"],
    "Certified by ISO9001 since 01.05.2024.": ["certifi", "iso9001", "sinc", "01.05.2024"],
    "Mr O'Brien pays 1.000,50 euros.": ["mr", "o", "brien", "pay", "1.000,50", "euro"],
}
LEXICAL = {"strategy": "lexical", "top_k": 10}


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.create_tenant("older-analyzer")


async def _set_analyzer(tenant: Tenant, kb: str, analyzer: str) -> None:
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute(
        "update search_index set identity = identity || jsonb_build_object('analyzer', $2::text) where kb_id = $1",
        decode_id("kb", _describe(tenant, kb)["id"]),
        analyzer,
    )
    await connection.close()


async def _create_first_version(tenant: Tenant, kb: str) -> None:
    """Create a knowledge base with the index identity and the lexical rows that version 1 stored."""
    tenant.admin.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
    await _set_analyzer(tenant, kb, "english-v1")
    for text in STORED:
        assert tenant.add_text(text, kb=kb)["status"] == "ready"
    connection = await asyncpg.connect(tenant.service.urls.owner)
    rows = await connection.fetch(
        "select i.id, l.keys, l.dl from search_index i join chunk_lexical l on l.index_id = i.id where i.kb_id = $1",
        decode_id("kb", _describe(tenant, kb)["id"]),
    )
    await connection.close()
    salt = compute_salt(rows[0]["id"])
    entries = [build_entry(terms, salt=salt, avgdl=100.0) for terms in STORED.values()]
    stored = sorted((sorted(row["keys"]), row["dl"]) for row in rows)
    assert stored == sorted((sorted(entry.keys), entry.length) for entry in entries)


def _describe(tenant: Tenant, kb: str) -> dict[str, Any]:
    described: dict[str, Any] = tenant.admin.get(f"/v1/knowledge-bases/{kb}").raise_for_status().json()
    return described


def _wait_for_reindex(tenant: Tenant, kb: str) -> None:
    for _ in range(600):
        if _describe(tenant, kb)["reindex"] is None:
            return
        time.sleep(0.1)
    raise AssertionError("The reindex does not end.")


def _search(tenant: Tenant, kb: str, query: str, **body: Any) -> list[str]:
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json={"query": query, **LEXICAL, **body})
    assert reply.status_code == 200, reply.text
    assert [warning["code"] for warning in reply.json()["warnings"] if "analyzer" in warning["code"]] == []
    return [result["text"] for result in reply.json()["results"]]


async def test_index_of_first_version_works_until_reindex(tenant: Tenant) -> None:
    texts = list(STORED)
    await _create_first_version(tenant, "old")
    index = _describe(tenant, "old")["index"]
    assert (index["analyzer"], index["action"]) == ("english-v1", "reindex")
    assert index["problem"].startswith("Knowledge base 'old' was analyzed by an older version ('english-v1'")
    # The words of version 1 find their documents, and the words of version 2 do not.
    for query, found in (
        ("10mg", [texts[0]]),
        ("dose per day", [texts[0]]),
        ("10 mg", []),
        ("ISO9001", [texts[1]]),
        ("iso", []),
        ("O'Brien", [texts[2]]),
        ("1.000,50", [texts[2]]),
        ("1000.50", []),
        ("it is", []),
    ):
        assert _search(tenant, "old", query) == found, query
    assert texts[0] in _search(tenant, "old", "10mg", strategy="hybrid")
    # A new document gets terms of version 1 too.
    added = tenant.add_text("Another 20mg tablet.", kb="old")
    assert added["status"] == "ready"
    assert _search(tenant, "old", "20mg") == ["Another 20mg tablet."]
    assert _search(tenant, "old", "20 mg") == []
    assert tenant.admin.post("/v1/knowledge-bases/old/reindex", json={}).status_code == 202
    _wait_for_reindex(tenant, "old")
    index = _describe(tenant, "old")["index"]
    assert (index["analyzer"], index["action"], index["problem"]) == ("english-v2", None, None)
    for query, found in (
        ("10 mg", [texts[0], "Another 20mg tablet."]),
        ("20", ["Another 20mg tablet."]),
        ("ISO 9001", [texts[1]]),
        ("2024", [texts[1]]),
        ("OBrien", [texts[2]]),
        ("1000.50", [texts[2]]),
    ):
        assert _search(tenant, "old", query) == found, query


async def test_rollback_returns_to_first_version(tenant: Tenant) -> None:
    await _create_first_version(tenant, "back")
    tenant.admin.post("/v1/knowledge-bases/back/reindex", json={}).raise_for_status()
    _wait_for_reindex(tenant, "back")
    assert _search(tenant, "back", "10 mg") == [next(iter(STORED))]
    tenant.admin.post("/v1/knowledge-bases/back/reindex/rollback").raise_for_status()
    _wait_for_reindex(tenant, "back")
    assert _describe(tenant, "back")["index"]["action"] == "reindex"
    assert _search(tenant, "back", "10 mg") == []
    assert _search(tenant, "back", "10mg") == [next(iter(STORED))]


@pytest.mark.parametrize(
    ("analyzer", "message"),
    [("english-v0", "not 'english-v2'. Reindex it."), ("german-v1", "not 'english-v2'. Reindex it.")],
)
async def test_index_of_unknown_analyzer_refuses_uploads(tenant: Tenant, analyzer: str, message: str) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "unknown"}).raise_for_status()
    await _set_analyzer(tenant, "unknown", analyzer)
    index = _describe(tenant, "unknown")["index"]
    assert index["action"] == "reindex"
    assert index["problem"].endswith(message)
    reply = tenant.admin.post("/v1/knowledge-bases/unknown/documents", json={"text": "A text."})
    assert_problem(reply, 409, "index_mismatch")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("IT", "The IT department answers questions of the staff. " * 4),
        ("The Who", "They say that The Who played in Leeds in the spring of that year. " * 3),
        ("to be or not to be", "Hamlet asks himself whether to be or not to be is the question of his life. " * 3),
        ("It", "Readers of horror like the novel It by King more than all his other books. " * 3),
        ("who we are", "Who We Are\n\nThe firm sells boats and builds harbours for sailors and for fishermen. " * 3),
    ],
)
@pytest.mark.parametrize("strategy", ["lexical", "hybrid"])
def test_query_of_stop_words_finds_its_document(tenant: Tenant, query: str, found: str, strategy: str) -> None:
    others = [
        "It is warm in the garden, and who walks there in the morning hears the birds sing in the trees nearby. " * 2,
        "The river is wide. It was not deep at that place, so that they could cross it with their horses on foot. " * 2,
        "Who pays the bill is told by the contract, which both sides have to sign before the work begins there. " * 2,
    ]
    tenant.admin.post("/v1/knowledge-bases", json={"name": "stops"}).raise_for_status()
    for text in (*others, found):
        assert tenant.add_text(text, kb="stops")["status"] == "ready"
    results = _search(tenant, "stops", query, strategy=strategy)
    assert results[0].strip()[:40] == found.strip()[:40]

"""Restricted keys and hidden documents: no score, count or query plan depends on documents that the key cannot see."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from harness.running_service import Service, Tenant

DOCUMENTS = "/v1/knowledge-bases/default/documents"
QUERIES = ("zorglub", "zorglub lighthouse", "harbour lighthouse zorglub keeper", "keeper")
TEXTS = (
    "The great Zorglub keeps the harbour.",
    "A small Zorglub, a lighthouse and a Zorglub.",
    "Lighthouse keepers of the harbour write letters.",
)


@pytest.fixture
def bob(tenant: Tenant) -> httpx2.Client:
    tenant.add_text("The keeper of everybody's harbour.")
    tenant.add_text("Here, Bob has a Zorglub of his own.", user_id="bob")
    tenant.add_text("A lighthouse for Bob alone, and for Zorglub.", user_id="bob")
    return tenant.create_client("writer", user_id="bob")


def seen(client: httpx2.Client) -> dict[str, Any]:
    """Return all replies with words and counts, without times and request ids."""
    answers: dict[str, Any] = {}
    for query in QUERIES:
        for strategy in ("lexical", "hybrid", "dense", "graph_rag"):
            body = {"query": query, "strategy": strategy, "scope": {"user_id": "bob"}, "explain": True, "top_k": 20}
            reply = client.post("/v1/search", json=body)
            reply.raise_for_status()
            told = reply.json()
            results = [
                (one["document"]["id"], one["score"], one["scores"], one.get("path_names")) for one in told["results"]
            ]
            answers[f"{strategy} {query}"] = results, told["warnings"], told["explain"]["knowledge_bases"]
        near = {"query": query, "scope": {"user_id": "bob"}, "score_threshold": 0.05, "strategy": "lexical"}
        answers[f"near {query}"] = [one["score"] for one in client.post("/v1/search", json=near).json()["results"]]
    base = client.get("/v1/knowledge-bases/default").json()
    answers["counts"] = base["document_count"], base["chunk_count"]
    answers["list"] = [(one["document_count"], one["chunk_count"]) for one in items(client, "/v1/knowledge-bases")]
    store = client.get(f"/openai/v1/vector_stores/{base['id']}").json()
    answers["store"] = store["file_counts"], store["usage_bytes"], store["status"]
    answers["documents"] = [one["id"] for one in items(client, DOCUMENTS)]
    return answers


def items(client: httpx2.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(path).json()["items"]
    return found


def of_alice(tenant: Tenant) -> list[str]:
    return [tenant.add_text(text, user_id="alice")["id"] for text in TEXTS]


def of_a_chat(tenant: Tenant) -> list[str]:
    return [tenant.add_text(text, chat_id="c", agent_id="a")["id"] for text in TEXTS]


def replaced(tenant: Tenant) -> list[str]:
    first = tenant.add_text("Nothing of note.", user_id="alice", external_id="letter")
    return [first["id"], tenant.add_text(TEXTS[1], user_id="alice", external_id="letter")["id"]]


def deleted(tenant: Tenant) -> list[str]:
    for one in of_alice(tenant):
        tenant.admin.delete(f"{DOCUMENTS}/{one}").raise_for_status()
    return []


def moved_up(tenant: Tenant) -> list[str]:
    """Promote a document from a chat to a user: its words stay private."""
    made = tenant.add_text(TEXTS[0], chat_id="c")["id"]
    tenant.admin.patch(f"{DOCUMENTS}/{made}", json={"scope": {"level": "user", "user_id": "alice"}}).raise_for_status()
    return [made]


@pytest.mark.parametrize("change", [of_alice, of_a_chat, replaced, deleted, moved_up])
def test_private_documents_of_others_change_no_reply(
    tenant: Tenant, bob: httpx2.Client, change: Callable[[Tenant], list[str]]
) -> None:
    before = seen(bob)
    assert before["lexical zorglub"][0]
    assert any(path_names for *_, path_names in before["graph_rag zorglub"][0])
    assert before["counts"][0] == 3
    change(tenant)
    assert seen(bob) == before


def test_restricted_key_scores_depend_on_visible_chunks_only(
    service: Service, tenant: Tenant, bob: httpx2.Client
) -> None:
    """After promotion to the tenant, the scores equal those of a corpus that never had private documents."""
    first, *others = of_alice(tenant)
    tenant.admin.patch(f"{DOCUMENTS}/{first}", json={"scope": {"level": "tenant"}}).raise_for_status()
    alone = service.create_tenant("without-alice")
    alone.add_text("The keeper of everybody's harbour.")
    alone.add_text("Here, Bob has a Zorglub of his own.", user_id="bob")
    alone.add_text("A lighthouse for Bob alone, and for Zorglub.", user_id="bob")
    alone.add_text(TEXTS[0])
    twin = alone.create_client("reader", user_id="bob")
    assert len(others) == 2
    for query in QUERIES:
        assert scores(bob, query) == scores(twin, query)
    assert scores(tenant.admin, "lighthouse") != scores(bob, "lighthouse")


def scores(client: httpx2.Client, query: str) -> list[float]:
    body = {"query": query, "strategy": "lexical", "scope": {"user_id": "bob"}, "top_k": 20}
    reply = client.post("/v1/search", json=body)
    reply.raise_for_status()
    return sorted(one["score"] for one in reply.json()["results"])


def test_query_plan_is_only_for_unrestricted_keys(tenant: Tenant, bob: httpx2.Client) -> None:
    """The plan shows the number of chunks and the visible share."""
    body = {"query": "zorglub", "explain": True}
    plans = [
        client.post("/v1/search", json=body).json()["explain"]["knowledge_bases"][0]["plan"]
        for client in (tenant.admin, bob)
    ]
    assert plans[0]["chunks"] == 3
    assert plans[1] is None

"""Reranking of results, and the results without a reranker."""

from collections.abc import Iterator
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.protocol_servers.rerank import RerankServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.fixtures.service_warnings import warning_json

# The reranker prefers texts with many words of the query; the search prefers short texts.
TEXTS = [
    "harbour harbour",
    "the harbour of the town is old",
    "the old harbour of the town and its two piers are closed",
]
QUESTION = "old harbour two piers closed"


@pytest.fixture(scope="module")
def reranker() -> Iterator[RerankServer]:
    with RerankServer() as server:
        yield server


@pytest.fixture(scope="module")
def tenant(
    reranker: RerankServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    with EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("reranking"),
            embedding=embedding.settings,
            rerank={"CARREL_RERANK_URL": reranker.url},
        )
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant()
            fill(tenant)
            yield tenant


def fill(tenant: Tenant) -> None:
    for number, text in enumerate(TEXTS):
        body = {"text": text, "external_id": str(number)}
        reply = tenant.admin.post("/v1/knowledge-bases/default/documents?wait=30", json=body)
        assert reply.json()["status"] == "ready", reply.text


def search(tenant: Tenant, **asked: Any) -> dict[str, Any]:
    reply = tenant.admin.post(
        "/v1/knowledge-bases/default/search", json={"query": QUESTION, "strategy": "dense"} | asked
    )
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [result["text"] for result in found["results"]]


@pytest.mark.capability("rerank")
def test_rerank_orders_results_by_reranker(tenant: Tenant, reranker: RerankServer) -> None:
    plain = texts(search(tenant))
    reranker.received.clear()
    found = search(tenant, rerank=True)
    assert texts(found) == TEXTS[::-1]
    assert [result["score"] for result in found["results"]] == pytest.approx([1.0, 0.4, 0.2])
    (asked,) = reranker.received
    assert (asked.query, sorted(asked.texts)) == (QUESTION, sorted(plain))
    assert found["warnings"] == []


@pytest.mark.capability("rerank-candidates")
def test_rerank_receives_more_candidates_than_top_k(tenant: Tenant) -> None:
    assert texts(search(tenant, rerank=True, top_k=1)) == [TEXTS[2]]


@pytest.mark.capability("rerank-failure")
@pytest.mark.parametrize("how", [500, "not_json", "indexes"])
def test_rerank_failure_preserves_search_order(tenant: Tenant, reranker: RerankServer, how: Any) -> None:
    plain = search(tenant)
    reranker.fail(how)
    found = search(tenant, rerank=True)
    assert texts(found) == texts(plain)
    assert [result["score"] for result in found["results"]] == [result["score"] for result in plain["results"]]
    assert found["warnings"] == [
        warning_json("reranker_unavailable", "The reranker did not answer, so the results were not reranked.")
    ]


def test_rerank_without_query_or_time_is_skipped_with_warning(tenant: Tenant, reranker: RerankServer) -> None:
    reranker.received.clear()
    found = search(tenant, query=None, queries=[{"vector": [1.0] + [0.0] * 63}], rerank=True)
    assert found["warnings"] == [
        warning_json("reranking_needs_text", "No query has a text, so the results were not reranked.")
    ]
    found = search(tenant, rerank=True, timeout_seconds=0.9)
    assert found["warnings"] == [
        warning_json("reranking_skipped", "The remaining time was too short, so the results were not reranked.")
    ]
    assert reranker.received == []


def test_rerank_without_reranker_has_warning(service: Service) -> None:
    tenant = service.create_tenant()
    fill(tenant)
    found = search(tenant, rerank=True)
    assert texts(found) == texts(search(tenant))
    assert found["warnings"] == [
        warning_json("reranker_not_configured", "No reranker is configured, so the results were not reranked.")
    ]


def agent_search(tenant: Tenant, agent: str, question: str = QUESTION) -> list[str]:
    messages = [{"role": "customer", "content": question}]
    reply = tenant.admin.post("/v1/agent-search", json={"messages": messages, "agent_id": agent})
    assert reply.status_code == 200, reply.text
    found: list[str] = reply.json()
    return found


@pytest.mark.capability("agent-search-rerank")
@pytest.mark.parametrize(
    ("settings", "reranks"),
    [(None, True), ({}, True), ({"rerank": None}, True), ({"rerank": True}, True), ({"rerank": False}, False)],
    ids=str,
)
def test_agent_search_reranks_unless_binding_disables_it(
    tenant: Tenant, reranker: RerankServer, settings: dict[str, Any] | None, reranks: bool
) -> None:
    if settings is not None:
        body = {"knowledge_bases": ["default"], "strategy": "dense", **settings}
        assert tenant.admin.put("/v1/agents/guide", json=body).json()["rerank"] == settings.get("rerank")
    reranker.received.clear()
    found = agent_search(tenant, "guide" if settings is not None else "nobody")
    assert len(reranker.received) == reranks
    assert found == (TEXTS[::-1] if reranks else texts(search(tenant)))


def test_agent_search_without_time_skips_reranker(tenant: Tenant, reranker: RerankServer) -> None:
    body = {"knowledge_bases": ["default"], "timeout_seconds": 0.9}
    assert tenant.admin.put("/v1/agents/hasty", json=body).is_success
    reranker.received.clear()
    assert sorted(agent_search(tenant, "hasty")) == sorted(TEXTS)
    body = {"knowledge_bases": ["default"], "timeout_seconds": 0.9, "strategy": "lexical"}
    assert tenant.admin.put("/v1/agents/hasty", json=body).is_success
    assert agent_search(tenant, "hasty", "xylophone") == []  # not 503, because the search was complete
    assert reranker.received == []


def test_agent_search_without_reranker_succeeds(service: Service) -> None:
    tenant = service.create_tenant()
    fill(tenant)
    body = {"knowledge_bases": ["default"], "rerank": True}
    assert tenant.admin.put("/v1/agents/guide", json=body).is_success
    assert sorted(agent_search(tenant, "guide")) == sorted(agent_search(tenant, "nobody")) == sorted(TEXTS)

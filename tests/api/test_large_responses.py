"""Large replies, which are serialized in slices, equal small ones."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from fastapi import Response

from app.api.http.large_responses import MAX_SLICE_BYTES
from app.api.v1.search.search_result_schemas import SearchOut
from app.api.v1.search.search_results import create_search_response
from app.retrieval.lazy_metadata import LazyMetadata
from app.retrieval.types import SearchResult
from harness.running_service import Service, Tenant
from tests.retrieval.hits import hit

LABELS = {"labels": [f'"results":[] {number:05d} éß' for number in range(500)]}
DOCUMENTS = 16


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    tenant = service.create_tenant()
    for number in range(DOCUMENTS):
        tenant.add_text(f"Ferry number {number} leaves at nine.", metadata=LABELS, title="Ferries")
    return tenant


def searched(tenant: Tenant, path: str, **body: Any) -> httpx2.Response:
    reply = tenant.admin.post(path, json=body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    assert "ratelimit-remaining" in reply.headers
    assert reply.headers.get_list("content-length") == [str(len(reply.content))]
    return reply


def test_large_search_reply_equals_serialized_model(tenant: Tenant) -> None:
    path, asked = "/v1/knowledge-bases/default/search", {"query": "the ferry", "timeout_seconds": 20, "explain": True}
    large = searched(tenant, path, top_k=DOCUMENTS, **asked)
    assert len(large.content) > MAX_SLICE_BYTES
    assert SearchOut.model_validate_json(large.content).model_dump_json().encode() == large.content
    results = large.json()["results"]
    assert [result["metadata"] for result in results] == [LABELS] * DOCUMENTS
    small = searched(tenant, path, top_k=2, **asked)
    assert len(small.content) < MAX_SLICE_BYTES
    assert small.json()["results"] == results[:2]
    assert small.json().keys() == large.json().keys()


def test_large_replies_of_other_apis_are_complete(tenant: Tenant) -> None:
    setting = {"top_k": DOCUMENTS, "score_threshold": 0.0}
    body = {"knowledge_id": "default", "query": "the ferry", "retrieval_setting": setting}
    records = searched(tenant, "/dify/retrieval", **body).json()["records"]
    assert [record["metadata"]["labels"] for record in records] == [LABELS["labels"]] * DOCUMENTS
    (store,) = (one["id"] for one in tenant.admin.get("/openai/v1/vector_stores").json()["data"])
    page = searched(tenant, f"/openai/v1/vector_stores/{store}/search", query="ferry", max_num_results=DOCUMENTS)
    assert len(page.json()["data"]) == DOCUMENTS
    assert page.json()["has_more"] is False


async def test_large_reply_yields_between_slices() -> None:
    stamp = LazyMetadata.from_entries({"$source": "ferries.txt", **LABELS})
    found = hit("The ferry leaves at nine.", 0.9)
    hits = [replace(found, chunk=replace(found.chunk, metadata=stamp)) for _ in range(200)]
    result = SearchResult(hits, ["the ferry"], "hybrid", [], {})
    writing = asyncio.ensure_future(create_search_response(result, Response()))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    large = await writing
    assert isinstance(large, Response)
    assert turns > len(large.body) / MAX_SLICE_BYTES / 2

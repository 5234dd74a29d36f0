"""Fair shares over HTTP: concurrent searches and streams, database time and knowledge bases of one tenant."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from app.retrieval.routing.router import KNOWLEDGE_BASE_LIMIT_REACHED, MAX_KNOWLEDGE_BASES
from harness.knowledge_base_copies import ADD_KNOWLEDGE_BASES_SQL
from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
GUARD_SECONDS = 30
BLOB = "update {} set metadata = metadata || jsonb_build_object('blob', repeat('ab', 7500)) where tenant_id = $1"


MORE_DOCUMENTS = """
insert into document (tenant_id, kb_id, id, source, media_type, bytes, sha256, scope_key, filterable, status)
select d.tenant_id, k.id, gen_random_uuid(), d.source, d.media_type, d.bytes, d.sha256, d.scope_key, d.filterable,
       'ready'
  from document d, knowledge_base k where d.tenant_id = $1 and k.tenant_id = $1 and k.name like 'more-%'"""


def set_quotas(tenant: Tenant, **quotas: int | None) -> None:
    tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json={"quotas": quotas}).raise_for_status()


def search(tenant: Tenant, **body: Any) -> httpx2.Response:
    return tenant.admin.post("/v1/search", json={"query": "lantern", **body})


async def by_sql(tenant: Tenant, *statements: tuple[Any, ...]) -> Any:
    connection = await asyncpg.connect(tenant.service.urls.owner)
    try:
        for sql, *values in statements:
            found = await connection.fetchval(sql, decode_id("ten", tenant.id), *values)
    finally:
        await connection.close()
    return found


def test_concurrent_event_streams_are_limited_per_tenant(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant()
    set_quotas(tenant, event_streams=1)
    with fragile.held():
        path = f"{DOCUMENTS}/{tenant.admin.post(DOCUMENTS, json={'text': 'Waiting.'}).json()['id']}/events"
        with _stream(tenant, path) as first:
            assert first.status_code == 200
            events = first.iter_raw()
            assert next(events)
            with _stream(tenant, path) as second:
                second.read()
                found = assert_problem(second, 429, "rate_limited")
                assert "1 event streams at once" in found["detail"]
                assert second.headers["Retry-After"] == "30"
            # A waiting upload counts as a stream. Over the limit, it is stored, but answered without waiting.
            began = time.monotonic()
            assert tenant.admin.post(DOCUMENTS, params={"wait": 60}, json={"text": "One more."}).status_code == 202
            assert time.monotonic() - began < GUARD_SECONDS
    deadline = time.monotonic() + GUARD_SECONDS
    while True:
        with _stream(tenant, path) as again:
            if again.status_code == 200:
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def _stream(tenant: Tenant, path: str) -> Iterator[httpx2.Response]:
    with tenant.admin.stream("GET", path) as reply:
        yield reply


def test_concurrent_searches_are_limited_per_tenant(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant()
    tenant.add_text("A lantern above the door.")
    set_quotas(tenant, concurrent_searches=1)
    other = fragile.service.create_tenant()
    with ThreadPoolExecutor(1) as pool, fragile.held():
        before = fragile.embedding.request_count
        slow = pool.submit(search, tenant, query="a word of its own", timeout_seconds=20)
        deadline = time.monotonic() + GUARD_SECONDS
        while fragile.embedding.request_count == before:  # another search could have taken the only place
            assert time.monotonic() < deadline
            time.sleep(0.01)
        refused = search(tenant, strategy="lexical")
        assert "1 searches at once" in assert_problem(refused, 429, "rate_limited")["detail"]
        assert search(other, strategy="lexical").status_code == 200
        fragile.release()
        assert slow.result().status_code == 200
    assert search(tenant, strategy="lexical").status_code == 200


async def test_expensive_filter_ends_on_server_within_time_limit(fragile: BreakableService) -> None:
    tenant = fragile.service.create_tenant()
    chunks = [{"text": f"Lantern number {number}."} for number in range(1500)]
    tenant.admin.post(DOCUMENTS, params={"wait": 60}, json={"chunks": chunks}).raise_for_status()
    await by_sql(tenant, *((BLOB.format(table),) for table in ("chunk_embedding", "chunk_lexical")))
    stem = "ab" * 124
    patterns = {"or": [{"blob": {"contains": f"{stem}{number:06d}"}} for number in range(16)]}
    reply = search(tenant, filter=patterns, timeout_seconds=1.5)
    assert reply.status_code in (200, 503)
    # The cost of the search is known now: a search with a shorter time limit is refused before it runs.
    deadline = time.monotonic() + GUARD_SECONDS
    while (reply := search(tenant, filter=patterns, timeout_seconds=1.5)).status_code == 503:
        assert time.monotonic() < deadline
    found = assert_problem(reply, 422, "filter_too_expensive")
    assert "contains" in found["detail"]
    active = (
        "select count(*) from pg_stat_activity where state = 'active' and query ~ 'hybrid_search' and $1 is not null"
    )
    deadline = time.monotonic() + GUARD_SECONDS
    while await by_sql(tenant, (active.replace("$1", "$1::uuid") + " and pid <> pg_backend_pid()",)):
        assert time.monotonic() < deadline
    # Cheap filters are answered during that time.
    assert search(tenant, filter={"blob": {"starts_with": "ab"}}, timeout_seconds=20).json()["results"]
    assert search(tenant, filter={"$title": {"exists": False}}, timeout_seconds=20).status_code == 200


@pytest.mark.parametrize("body", [{"strategy": "lexical"}, {"strategy": "hybrid"}])
async def test_search_of_very_many_knowledge_bases_reads_those_with_content(tenant: Tenant, body: Any) -> None:
    await by_sql(tenant, (ADD_KNOWLEDGE_BASES_SQL, MAX_KNOWLEDGE_BASES + 50))
    for name in ("default", "more-7", "more-200"):
        tenant.add_text(f"The lantern of {name} hangs above the door.", kb=name)
    found = search(tenant, **body, explain=True).json()
    assert {hit["knowledge_base"] for hit in found["results"]} == {"default", "more-7", "more-200"}
    assert not found["warnings"]


async def test_knowledge_bases_left_out_of_search_cause_warning(service: Service, tenant: Tenant) -> None:
    tenant.add_text("A lantern for every knowledge base.")
    await by_sql(tenant, (ADD_KNOWLEDGE_BASES_SQL, MAX_KNOWLEDGE_BASES + 50), (MORE_DOCUMENTS,))
    found = search(tenant, strategy="lexical", timeout_seconds=30).json()
    assert KNOWLEDGE_BASE_LIMIT_REACHED.to_json() in found["warnings"]
    named = search(tenant, strategy="lexical", knowledge_bases=["more-1", "more-240"]).json()
    assert not named["warnings"]

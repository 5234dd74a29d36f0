"""Filtered search in a large knowledge base: its retrievers run in parallel, on two connections with one snapshot.

Only its row says that it is large; the real contents are so small that they can be compared.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields
from app.embedded_postgres import EmbeddedPostgres
from app.retrieval.types import Hit, SearchRequest, SearchResult, SearchUnavailable
from app.warnings import ServiceWarning
from harness.databases import run_sql
from tests.ingestion.workshop import Workshop
from tests.retrieval.statements import all_returned, statements

FILTER = {"kind": "a"}
SNAPSHOT = "pg_export_snapshot"


@pytest.fixture(scope="module")
async def tenant(workshop: Workshop) -> TenantServices:
    services = await workshop.new_tenant()
    for number in range(30):
        text = f"the lantern of harbor {number} " + "shines " * (number % 7) + "moss " * (number % 3)
        facts = DocumentFields(metadata={"kind": "ab"[number % 2], "number": number})
        uploaded = await services.uploads.upload_text("default", text, facts, media_type="text/plain")
        await workshop.ingest(uploaded.document)
    return services


@pytest.fixture(autouse=True)
async def _large(workshop: Workshop) -> None:
    await be(workshop, "hnsw")


async def be(workshop: Workshop, state: str) -> None:
    await workshop.owner.execute("update search_index set vector_index = $1", state)


async def find(services: TenantServices, query: str = "lantern moss", **wishes: Any) -> SearchResult:
    request = SearchRequest([query], **{"top_k": 8, "filter": FILTER, "timeout_seconds": 20.0, **wishes})
    return await services.retrieval.search(request)


def hits_of(result: SearchResult) -> list[Hit]:
    """Return the hits without their ranks."""
    return [replace(hit, ranks=()) for hit in result.hits]


async def sent_by(workshop: Workshop, services: TenantServices, *, lent: int = 0, **wishes: Any) -> list[str]:
    async with statements(workshop, lent=lent) as sent:
        assert list((await find(services, **wishes)).warnings) == []
    return sent


@pytest.mark.parametrize(
    "wishes",
    [{}, {"filter": {"number": {"lt": 9}}}, {"query": "moss"}, {"score_threshold": 0.1}, {"return_vectors": True}],
    ids=str,
)
async def test_parallel_search_returns_same_results(
    workshop: Workshop, tenant: TenantServices, wishes: dict[str, Any]
) -> None:
    beside = await find(tenant, **wishes)
    await be(workshop, "exact")
    together = await find(tenant, **wishes)
    assert len(beside.hits) > 2
    assert (hits_of(beside), list(beside.warnings)) == (hits_of(together), list(together.warnings))
    if "query" not in wishes:
        assert {hit.scores.dense is not None and hit.scores.lexical is not None for hit in beside.hits} == {True}


@pytest.mark.parametrize(
    ("wishes", "state", "snapshots"),
    [
        ({}, "hnsw", 1),
        ({"filter": {"number": {"gt": 3}}}, "hnsw", 1),
        ({"filter": None}, "hnsw", 0),
        ({}, "exact", 0),
        ({"query": "…?!"}, "hnsw", 0),
        ({"strategy": "dense"}, "hnsw", 0),
        ({"strategy": "lexical"}, "hnsw", 0),
        ({"strategy": "lexical", "score_threshold": 0.1}, "hnsw", 0),
    ],
    ids=str,
)
async def test_parallel_search_runs_only_if_both_retrievers_are_slow(
    workshop: Workshop, tenant: TenantServices, wishes: dict[str, Any], state: str, snapshots: int
) -> None:
    await be(workshop, state)
    await find(tenant, **wishes)  # the first search of a connection sends further statements
    sent = await sent_by(workshop, tenant, **wishes)
    assert sum(SNAPSHOT in sql for sql in sent) == snapshots
    assert sum("set transaction snapshot" in sql for sql in sent) == snapshots
    assert sum("hybrid_search" in sql for sql in sent) == 1 + snapshots


async def test_parallel_search_uses_one_connection_if_others_wait(workshop: Workshop, tenant: TenantServices) -> None:
    pool: Any = workshop.resources.database.engine.sync_engine.pool
    half = pool.size() // 2
    await all_returned(workshop)
    async with AsyncExitStack() as busy:
        for _ in range(half):
            await busy.enter_async_context(workshop.resources.database.transaction(None))
        sent = await sent_by(workshop, tenant, lent=half)
    assert sum(SNAPSHOT in sql for sql in sent) == 0
    assert sum(SNAPSHOT in sql for sql in await sent_by(workshop, tenant)) == 1


async def test_parallel_search_falls_back_to_one_connection(
    workshop: Workshop, tenant: TenantServices, postgres_server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    expected = hits_of(await find(tenant))
    name, superuser = workshop.urls.app.rpartition("/")[2], postgres_server.build_url("postgres")
    engine = workshop.resources.database.engine
    await all_returned(workshop)
    await engine.dispose()
    async with workshop.resources.database.transaction(None):
        pass  # the only pool from here on
    await asyncio.to_thread(run_sql, superuser, f"alter database {name} connection limit 1")
    try:
        with caplog.at_level(logging.WARNING, logger="app"):
            result = await find(tenant)
        await all_returned(workshop)
        assert engine.sync_engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    finally:
        await asyncio.to_thread(run_sql, superuser, f"alter database {name} connection limit -1")
    assert (hits_of(result), list(result.warnings), list(result.degraded_steps)) == (expected, [], [])
    assert [record.getMessage() for record in caplog.records] == ["search.parallel_run_failed"]


async def test_many_parallel_searches_do_not_deadlock(workshop: Workshop, tenant: TenantServices) -> None:
    """More searches than connections: no deadlock, and all return."""
    expected = hits_of(await find(tenant))
    for result in await asyncio.gather(*(find(tenant) for _ in range(60))):
        assert (hits_of(result), list(result.warnings)) == (expected, [])
    await all_returned(workshop)  # the usage meter has a separate connection during that time


async def lock(workshop: Workshop, *tables: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(workshop.urls.owner)
    await connection.execute(f"begin; lock table {', '.join(tables)} in access exclusive mode")
    return connection


@pytest.mark.parametrize(("table", "silent"), [("chunk_embedding", "dense"), ("chunk_lexical", "lexical")])
async def test_parallel_search_one_retriever_answers_if_other_is_locked(
    workshop: Workshop, tenant: TenantServices, table: str, silent: str
) -> None:
    locked = await lock(workshop, table)
    try:
        result = await find(tenant, timeout_seconds=3.0)
    finally:
        await locked.close()
    assert len(result.hits) > 2
    assert list(result.warnings) == [ServiceWarning("retriever_unavailable", f"The {silent} retriever did not answer.")]
    assert list((await find(tenant)).warnings) == []


async def test_parallel_search_without_retrievers_is_unavailable(workshop: Workshop, tenant: TenantServices) -> None:
    locked = await lock(workshop, "chunk_embedding", "chunk_lexical")
    try:
        with pytest.raises(SearchUnavailable):
            await find(tenant, timeout_seconds=1.5)
    finally:
        await locked.close()
    assert list((await find(tenant)).warnings) == []


@pytest.mark.parametrize("after", [0.0, 0.005, 0.02])
async def test_parallel_search_cancelled_leaves_nothing(
    workshop: Workshop, tenant: TenantServices, after: float
) -> None:
    locked = await lock(workshop, "chunk_embedding")
    try:
        search = asyncio.create_task(find(tenant, query="lantern"))
        await asyncio.sleep(0.1 + after)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        await all_returned(workshop)
    finally:
        await locked.close()
    assert len((await find(tenant)).hits) == 8

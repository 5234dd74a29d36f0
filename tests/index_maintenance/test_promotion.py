"""Vector indexes are created, rebuilt and dropped, while searches find all expected rows at any time."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from app.db.index_ddl import MAX_INDEXES_PER_PARTITION
from app.documents.metadata_backfill.repository import MetadataBackfill, MetadataBackfillRepository
from app.documents.repository import DocumentRepository
from app.documents.types import build_document_filter_metadata
from app.embedded_postgres import DatabaseUrls
from tests.index_maintenance.maintained_database import SCOPE, FilledIndex, MaintainedDatabase, open_maintained_database

# With 24 dimensions the limit is four times as high: just above the 5,000 that dense_search reads exactly in
# any case.
DIM, THRESHOLD, LARGE = 24, 1300, 6200
ALL = {"hnsw_", "filter_", "scope_", "filterl_", "scopel_"}
QUERIES = list(np.random.default_rng(7).normal(size=(20, DIM)).astype(np.float32))
# The statements of the search functions of the migrations, with their variables filled in.
LANES = {
    "hnsw_": "select e.chunk_id, e.embedding::halfvec('24') <=> {vector} as d from chunk_embedding e where {rows}"
    " and e.dim = '24' and e.scope_key = any('{scopes}') order by e.embedding::halfvec('24') <=> {vector} limit 10",
    "filter_": "select e.chunk_id, (e.embedding <=> {vector}) + 0.0 as d from chunk_embedding e where {rows}"
    " and e.dim = 24 and e.scope_key = any('{scopes}') and e.metadata {filter} order by d, e.chunk_id limit 10",
    "scope_": "select e.chunk_id, (e.embedding <=> {vector}) + 0.0 as d from chunk_embedding e where {rows}"
    " and e.dim = 24 and e.scope_key = any('{stranger}') order by d, e.chunk_id limit 10",
    "filterl_": "select l.chunk_id, (l.terms <#> '{{1:1}}/1000000000') + 0.0 as d from chunk_lexical l where {rows}"
    " and l.scope_key = any('{scopes}') and l.metadata {filter} order by d, l.chunk_id limit 10",
    "scopel_": "select l.chunk_id, (l.terms <#> '{{1:1}}/1000000000') + 0.0 as d from chunk_lexical l where {rows}"
    " and l.scope_key = any('{stranger}') order by d, l.chunk_id limit 10",
}


@pytest.fixture(scope="module")
async def world(database: DatabaseUrls) -> AsyncIterator[MaintainedDatabase]:
    async with open_maintained_database(database, threshold=THRESHOLD) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def no_jobs(world: MaintainedDatabase) -> None:
    await world.owner.execute("delete from job")


async def searching(index: FilledIndex, work: Coroutine[Any, Any, None]) -> list[float]:
    """Search during the whole of ``work``; return the recall of each search."""
    task, recalls = asyncio.create_task(work), list[float]()
    while not task.done() or len(recalls) < 20:
        recalls.append(await index.recall([QUERIES[len(recalls) % len(QUERIES)]]))
        await asyncio.sleep(0.03)  # leaves some time to the work
    await task
    return recalls


async def plan(world: MaintainedDatabase, index: FilledIndex, name: str, *, contains: str) -> str:
    """Return the plan of a retriever's statement with constant values, as the search functions' owner gets it."""
    sql = LANES[name].format(
        rows=f"tenant_id = '{index.tenant}' and index_id = '{index.id}'",
        vector=f"'{np.ones(index.dim).tolist()}'::halfvec",
        scopes=f"{{{SCOPE}}}",
        stranger=f"{{{uuid4()}}}",
        filter=contains,
    )
    settings = ("enable_sort", "enable_bitmapscan", "enable_seqscan") if name == "hnsw_" else ()
    async with world.owner.transaction():
        await world.owner.execute("set local role carrel_search")
        for setting in settings:
            await world.owner.execute(f"set local {setting} = off")
        rows = await world.owner.fetch(f"explain {sql}")
    return "\n".join(row[0] for row in rows)


@pytest.mark.capability("ann")
async def test_vector_index_lifecycle_searches_stay_complete(world: MaintainedDatabase) -> None:
    """Growth, updates and shrinking; at any time searches find enough rows, and nearly all nearest neighbours."""
    index = await world.new_index(DIM)
    await index.add(LARGE)
    assert await index.state() == "exact"
    recalls = await searching(index, index.maintain())
    row = await index.row()
    assert (row["vector_index"], row["built_chunks"], row["skip_reason"]) == ("hnsw", LARGE, None)
    assert row["index_bytes"] > LARGE * 2 * DIM
    assert 0.9 <= row["recall"] <= 1
    assert await index.names() == ALL
    await world.owner.execute("analyze chunk_embedding_other; analyze chunk_lexical")
    for name in LANES:
        for contains in ("@> '{\"n\": 17}'", "@@ '$.n == 17'"):
            assert f"{name}{index.id.hex}" in await plan(world, index, name, contains=contains)
    # A sixth of it is dead, so it is rebuilt. Then it shrinks below the half.
    await index.remove(1000)
    recalls += await searching(index, index.maintain())
    row = await index.row()
    assert (row["vector_index"], row["built_chunks"], row["deleted_chunks"]) == ("hnsw", LARGE - 1000, 0)
    assert await index.names() == ALL
    await index.remove(2700)
    recalls += await searching(index, index.maintain())
    row = await index.row()
    assert (row["vector_index"], row["built_chunks"], row["index_bytes"]) == ("exact", None, 0)
    assert row["recall"] is None
    assert await index.names() == set()
    assert np.mean(recalls) >= 0.95


async def test_interrupted_build_is_repeated(world: MaintainedDatabase) -> None:
    index = await world.new_index(DIM)
    await index.add(LARGE)
    building = asyncio.create_task(world.maintenance.maintain(index.tenant, index.id))
    await world.until("select count(*) from pg_class where relname = 'hnsw_' || $1", index.id.hex)
    building.cancel()
    with suppress(asyncio.CancelledError):
        await building
    assert await index.state() == "building"
    await world.until("select count(*) = 0 from pg_stat_activity where query ilike 'create index concurrently%'")
    assert await index.names() == {"hnsw_ (invalid)"}
    assert await index.recall(QUERIES[:5]) == 1.0
    # The periodic scan sees it, and creates a job.
    await world.maintenance.scan()
    assert [job["tenant_id"] for job in await world.jobs()] == [index.tenant]
    await world.maintenance.maintain(index.tenant, index.id)
    assert await index.names() == ALL
    assert await index.recall(QUERIES) >= 0.95
    # A lost index is built again, too.
    await world.owner.execute(f"drop index hnsw_{index.id.hex}, filter_{index.id.hex}")
    assert await index.recall(QUERIES[:5]) >= 0.95
    await world.maintenance.maintain(index.tenant, index.id)
    assert await index.names() == ALL
    for name in sorted(ALL):
        await world.owner.execute(f"drop index {name}{index.id.hex}; delete from job")
        await world.maintenance.scan()
        assert [job["payload"] for job in await world.jobs()] == [f'{{"index": "{index.id}"}}'], name
        await world.maintenance.maintain(index.tenant, index.id)
        assert await index.names() == ALL
    # The indexes of a deleted knowledge base are dropped.
    await world.owner.execute("delete from knowledge_base where id = $1", index.kb)
    await world.maintenance.maintain(index.tenant, index.id)
    await world.maintenance.scan()
    assert await index.names() == set()


async def graph(index: FilledIndex) -> tuple[int, int]:
    """Return the file number of the vector index, which changes with each rebuild, and its size."""
    sql = "select pg_relation_filenode(c.oid), pg_relation_size(c.oid) from pg_class c where relname = 'hnsw_' || $1"
    file, size = await index.world.owner.fetchrow(sql, index.id.hex)
    return file, size


async def test_metadata_backfill_leaves_vector_index(world: MaintainedDatabase) -> None:
    """An element has room for ten rows of one vector, and VACUUM frees their places: nothing counts as dead."""
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await index.maintain()
    file, size = await graph(index)
    stamped = "select count(*) from chunk_embedding where index_id = $1 and metadata ->> 'stamp' = $2"
    async with world.maintenance.database.transaction(index.tenant) as session:
        await MetadataBackfillRepository(session, index.tenant, index.kb).apply(
            MetadataBackfill({}, {"stamp": "1"}, 1), [index.document]
        )
    assert await world.owner.fetchval(stamped, index.id, "1") == THRESHOLD
    async with world.maintenance.database.transaction(index.tenant) as session:
        documents = DocumentRepository(session, index.tenant)
        document = await documents.get(index.kb, index.document, lock=True)
        assert document is not None
        document.attributes = {"stamp": "2"}
        document.filterable = build_document_filter_metadata(document)
        await documents.update_search_metadata(document)
    assert await world.owner.fetchval(stamped, index.id, "2") == THRESHOLD
    await index.maintain()
    after = await graph(index)
    assert after[0] == file
    assert after[1] < 1.1 * size  # a few elements may be unreachable in the graph
    assert (await index.row())["deleted_chunks"] == 0


async def test_load_is_inserted_into_existing_vector_index(world: MaintainedDatabase) -> None:
    """Dropping the index before a load would save little, and searches would read all vectors during it (ADR 0017)."""
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await index.maintain()
    file, size = await graph(index)
    await index.add(THRESHOLD // 2, seed=2)
    grown = await graph(index)
    before = (await index.row())["index_bytes"]
    await index.maintain()
    assert await graph(index) == grown
    assert grown[0] == file
    assert grown[1] > 1.4 * size
    row = await index.row()
    # The recorded size is the present size.
    assert row["index_bytes"] == await index.bytes() > before
    assert (row["vector_index"], row["built_chunks"], row["deleted_chunks"]) == ("hnsw", 3 * THRESHOLD // 2, 0)


async def test_index_without_owner_stays_exact_with_reason(world: MaintainedDatabase) -> None:
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await world.without_owner().maintain(index.tenant, index.id)
    row = await index.row()
    assert (row["vector_index"], row["skip_reason"]) == ("exact", "no_owner")
    await world.without_owner().scan()
    # A worker does the job without any change of the index.
    await world.owner.execute("delete from job")
    await world.maintenance.scan()
    assert [job["payload"] for job in await world.jobs()] == [f'{{"index": "{index.id}"}}']
    await world.maintenance.maintain(index.tenant, index.id)
    row = await index.row()
    assert (row["vector_index"], row["skip_reason"]) == ("hnsw", None)
    table = "select tablename from pg_indexes where indexname = 'hnsw_' || $1"
    assert await world.owner.fetchval(table, index.id.hex) == "chunk_embedding_384"


async def test_partition_limit_of_indexes_is_respected(world: MaintainedDatabase) -> None:
    index = await world.new_index(512)
    await index.add(THRESHOLD)
    for number in range(MAX_INDEXES_PER_PARTITION):
        await world.owner.execute(f"create index hnsw_other{number} on chunk_embedding_512 (chunk_id)")
    await world.maintenance.maintain(index.tenant, index.id)
    row = await index.row()
    assert (row["vector_index"], row["skip_reason"]) == ("exact", "too_many")
    await world.maintenance.scan()
    await world.owner.execute("delete from job")
    await world.maintenance.scan()
    assert await world.jobs() == []
    # Space that another index frees is found without any change.
    await world.owner.execute("drop index hnsw_other0")
    await world.maintenance.scan()
    assert [job["payload"] for job in await world.jobs()] == [f'{{"index": "{index.id}"}}']
    await world.maintenance.maintain(index.tenant, index.id)
    assert await index.state() == "hnsw"


async def test_changed_threshold_applies_without_changes(world: MaintainedDatabase) -> None:
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await index.maintain()
    await world.owner.execute("delete from job")
    for threshold, skip_reason, state in (
        (2 * THRESHOLD, None, "hnsw"),  # the index remains down to the half
        (2 * THRESHOLD + 2, None, "exact"),
        (2 * THRESHOLD + 2, "too_many", "exact"),
        (THRESHOLD, None, "hnsw"),
    ):
        await world.owner.execute("update search_index set skip_reason = $2 where id = $1", index.id, skip_reason)
        maintenance = replace(world.maintenance, threshold=threshold)
        before = (await index.state(), skip_reason)
        await maintenance.scan()
        assert len([job for job in await world.jobs() if job["tenant_id"] == index.tenant]) == (before != (state, None))
        await maintenance.maintain(index.tenant, index.id)
        await world.owner.execute("delete from job")
        row = await index.row()
        assert (row["vector_index"], row["skip_reason"]) == (state, None)


async def test_skipped_index_is_tried_again_after_growth(world: MaintainedDatabase) -> None:
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await index.maintain()
    await index.remove(50)
    file, _ = await graph(index)
    for added, tried in ((THRESHOLD // 10 + 50, THRESHOLD), (1, THRESHOLD + THRESHOLD // 10 + 1)):
        await index.add(added, seed=added)
        await index.maintain()
        row = await index.row()
        assert (row["vector_index"], row["built_chunks"], row["deleted_chunks"]) == ("hnsw", tried, 50)
        assert (await graph(index))[0] == file


async def test_grown_index_with_deletions_is_rebuilt(world: MaintainedDatabase) -> None:
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    await index.maintain()
    file, _ = await graph(index)
    await world.owner.execute(f"drop index filter_{index.id.hex}")
    await index.add(THRESHOLD // 5, seed=7)
    await index.maintain()
    row = await index.row()
    assert (row["vector_index"], row["built_chunks"]) == ("hnsw", THRESHOLD + THRESHOLD // 5)
    assert row["index_bytes"] == await index.bytes()
    assert await index.names() == ALL
    assert (await graph(index))[0] == file


async def test_late_copies_of_a_vector_hide_no_other(world: MaintainedDatabase) -> None:
    index, rng = await world.new_index(DIM), np.random.default_rng(5)
    await index.add(6000, made=-np.ones((6000, DIM), np.float32))
    await index.maintain()
    assert await index.state() == "hnsw"
    texts = rng.normal(size=(720, DIM)).astype(np.float32) + 1
    await index.add(700, made=texts[:700])
    await index.maintain()
    # the recall that the trial accepts, measured with other vectors
    assert await index.recall(list(texts[700:])) >= 0.85


async def test_many_copies_of_a_vector_hide_no_other(world: MaintainedDatabase) -> None:
    """A notice on every page: its copies link to each other, and a search that reaches them finds nothing else."""
    index, rng = await world.new_index(DIM), np.random.default_rng(5)
    texts = rng.normal(size=(720, DIM)).astype(np.float32) + 1
    made = np.concatenate([texts[:700], -np.ones((6000, DIM), np.float32)])
    await index.add(len(made), made=rng.permutation(made))
    await index.maintain()
    # the recall that the trial accepts, measured with other vectors
    assert await index.recall(list(texts[700:])) >= 0.85


async def test_rebuild_recreates_all_indexes(world: MaintainedDatabase) -> None:
    """A rebuild frees the space of dead rows in the indexes of filters and scopes, too."""
    index = await world.new_index(DIM)
    await index.add(LARGE)
    await index.maintain()
    before = await files(world, index)
    await index.remove(1000)
    await index.maintain()
    after = await files(world, index)
    assert before.keys() == after.keys()
    assert len(before) == len(ALL)
    assert not set(before.values()) & set(after.values())


async def files(world: MaintainedDatabase, index: FilledIndex) -> dict[str, int]:
    """Return the file numbers of the search index's partial indexes."""
    sql = "select relname, relfilenode::bigint from pg_class where relname like '%' || $1"
    return dict(map(tuple, await world.owner.fetch(sql, index.id.hex)))


async def test_concurrent_builds_take_turns(world: MaintainedDatabase) -> None:
    index = await world.new_index(384)
    await index.add(THRESHOLD)
    async with world.owner_database.connect() as other:
        assert await other.try_lock()
        await world.maintenance.maintain(index.tenant, index.id)
        assert await index.state() == "exact"
        await world.owner.execute("delete from job")
    await world.maintenance.scan()
    assert len(await world.jobs()) == 1
    await world.maintenance.maintain(index.tenant, index.id)
    assert await index.state() == "hnsw"

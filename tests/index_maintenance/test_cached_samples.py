"""Cached samples of filters: a session uses one for a minute and for an unchanged number of chunks, with equal
results.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from app.embedded_postgres import DatabaseUrls
from app.filters import compile_filter
from tests.index_maintenance.maintained_database import SCOPE, FilledIndex, MaintainedDatabase, open_maintained_database

DIM, ROWS = 24, 3000
PLAN = "select p.share from search_plan($1, $2, $3, $4::jsonb, $5::jsonpath, 10, $6::jsonb) p"
DENSE = """
select d.chunk_id from hybrid_search($1, $2, $3, $4, '{}', '{}', $5, $6::jsonb, $7::jsonpath, 10, 0, $8::jsonb) d"""
LEXICAL = """
select b.chunk_id
  from hybrid_search($1, $2, null, null, '{0}', '{1}', $3, $4::jsonb, $5::jsonpath, 0, 10, $6::jsonb) b"""
PASSING = """
select chunk_id from chunk_embedding where index_id = $1 and {filter}
 order by (embedding <=> $2) + 0.0, chunk_id limit 10"""
SLOTS = """
select s, current_setting('carrel.sample_' || s, true) from generate_series(0, 31) s
 where current_setting('carrel.sample_' || s, true) <> ''"""
TABLES = ("chunk_embedding", "chunk_lexical")


@pytest.fixture(scope="module")
async def world(database: DatabaseUrls) -> AsyncIterator[MaintainedDatabase]:
    async with open_maintained_database(database, threshold=200) as opened:
        yield opened


@pytest.fixture
async def index(world: MaintainedDatabase) -> FilledIndex:
    made = await world.new_index(DIM)
    await made.add(ROWS)
    await made.maintain()
    assert await made.state() == "hnsw"
    return made


@pytest.fixture
async def session(world: MaintainedDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(world.urls.app)
    await register_vector(connection)
    yield connection
    await connection.close()


@asynccontextmanager
async def asking(session: asyncpg.Connection, index: FilledIndex) -> AsyncIterator[None]:
    async with session.transaction():
        await session.execute("select set_config('app.tenant_id', $1, true)", str(index.tenant))
        yield


async def share(session: asyncpg.Connection, index: FilledIndex, filter: dict[str, Any]) -> float:
    async with asking(session, index):
        found: float = await session.fetchval(
            PLAN, index.tenant, index.id, [SCOPE], *compile_filter(filter, enforced_filter=None).sql_params
        )
    return found


async def found(session: asyncpg.Connection, index: FilledIndex, filter: dict[str, Any], query: Any) -> list[UUID]:
    where = (
        index.tenant,
        index.id,
        HalfVector(query),
        DIM,
        [SCOPE],
        *compile_filter(filter, enforced_filter=None).sql_params,
    )
    async with asking(session, index):
        return [row[0] for row in await session.fetch(DENSE, *where)]


async def found_by_words(session: asyncpg.Connection, index: FilledIndex, filter: dict[str, Any]) -> list[UUID]:
    """Return the chunks that contain the word. All have the same score, so they are ordered by id."""
    where = (index.tenant, index.id, [SCOPE], *compile_filter(filter, enforced_filter=None).sql_params)
    async with asking(session, index):
        return [row[0] for row in await session.fetch(LEXICAL, *where)]


async def become(index: FilledIndex, metadata: str) -> None:
    """Give all rows this metadata; the number of chunks does not change."""
    for table in TABLES:
        await index.world.owner.execute(
            f"update {table} set metadata = {metadata} where tenant_id = $1 and index_id = $2",
            index.tenant, index.id,
        )  # fmt: skip


async def test_sample_is_reused_while_chunk_count_is_unchanged(session: asyncpg.Connection, index: FilledIndex) -> None:
    before = await share(session, index, {"tenth": 3})
    assert 0.05 < before < 0.2
    await become(index, "'{\"tenth\": 3}'")
    assert await share(session, index, {"tenth": 3}) == before
    assert await share(session, index, {"tenth": {"lt": 4}}) == 1.0  # another filter
    await index.remove(1)
    assert await share(session, index, {"tenth": 3}) == 1.0


async def test_sample_is_reused_for_a_minute(session: asyncpg.Connection, index: FilledIndex) -> None:
    before = await share(session, index, {"tenth": 3})
    await become(index, "'{\"tenth\": 3}'")
    ((slot, value),) = await session.fetch(SLOTS)
    now, until = (
        await session.fetchval("select extract(epoch from clock_timestamp())::float8"),
        float(value.split()[-1]),
    )
    assert 50 < until - now <= 60
    assert await share(session, index, {"tenth": 3}) == before
    over = " ".join([*value.split()[:-1], str(now - 1)])
    await session.execute("select set_config($1, $2, false)", f"carrel.sample_{slot}", over)
    assert await share(session, index, {"tenth": 3}) == 1.0


async def test_sample_is_separate_for_each_index(
    session: asyncpg.Connection, world: MaintainedDatabase, index: FilledIndex
) -> None:
    before = await share(session, index, {"tenth": 3})
    other = await world.new_index(DIM)
    await other.add(ROWS, metadata=['{"tenth": 3}'] * ROWS)
    await other.maintain()
    assert await share(session, other, {"tenth": 3}) == 1.0
    assert await share(session, index, {"tenth": 3}) == before


H = "abs(hashtext(chunk_id::text))"
SPREAD, ALL, FEW = (f"jsonb_build_object('x', {x})" for x in (f"{H} % 3000", "1", f"{H} % 300000"))
ODD, SELDOM_ODD = (f"jsonb_build_object('x', {H} % 3000, 'odd', {odd})" for odd in ("true", f"{H} % 50 = 0"))
UNDER = {"x": {"lt": 600}}


@pytest.mark.parametrize(
    ("filter", "first", "then", "lookup"),
    [
        (UNDER, SPREAD, ALL, 0),
        (UNDER, SPREAD, FEW, 0),
        (UNDER, ALL, SPREAD, -1),
        (UNDER, ALL, FEW, -1),
        (UNDER, FEW, ALL, 0),
        ({**UNDER, "odd": True}, ODD, SELDOM_ODD, 0),
        ({**UNDER, "odd": True}, SELDOM_ODD, ODD, -1),
    ],
)
async def test_sample_of_any_value_gives_same_rows(
    session: asyncpg.Connection, index: FilledIndex, filter: dict[str, Any], first: str, then: str, lookup: int
) -> None:
    """The counts are so large that ranges are looked up, and that the HNSW is used if all rows pass."""
    counts = "insert into index_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, 19000, 19000)"
    await index.world.owner.execute(counts, index.tenant, index.id)
    words = (
        "insert into term_document_frequency (tenant_id, index_id, key, df, max_weight) values ($1, $2, 1, 3000, 0.5)"
    )
    await index.world.owner.execute(words, index.tenant, index.id)
    rng, passing = np.random.default_rng(5), "metadata @@ '$.x < 600'"
    passing += " and metadata @> '{\"odd\": true}'" if "odd" in filter else ""
    await become(index, first)
    await found(session, index, filter, rng.normal(size=DIM))
    kept = await share(session, index, filter)
    ((_, value),) = await session.fetch(SLOTS)
    assert int(value.split()[3]) == lookup
    await become(index, then)
    assert await share(session, index, filter) == kept
    first_ids = await index.world.owner.fetch(
        f"select chunk_id from chunk_lexical where index_id = $1 and {passing} order by chunk_id limit 10", index.id
    )
    assert await found_by_words(session, index, filter) == [row[0] for row in first_ids] != []
    for query in rng.normal(size=(5, DIM)):
        rows = await index.world.owner.fetch(PASSING.replace("{filter}", passing), index.id, HalfVector(query))
        best = [row[0] for row in rows]
        there = await found(session, index, filter, query)
        assert len(there) == len(best) > 0
        assert len(set(there) & set(best)) >= (0.9 if first == ALL else 1) * len(best)  # the HNSW was used

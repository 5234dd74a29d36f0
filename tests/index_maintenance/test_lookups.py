"""Filters of a promoted knowledge base: an index of terms finds the same rows as a full scan."""

import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from pgvector import HalfVector

from app.embedded_postgres import DatabaseUrls
from app.filters import build_filter_metadata, compile_filter
from tests.filters.filter_model import passes
from tests.index_maintenance.maintained_database import SCOPE, FilledIndex, MaintainedDatabase, open_maintained_database

DIM, THRESHOLD, ROWS = 24, 200, 3000
ALL = {"hnsw_", "filter_", "scope_", "filterl_", "scopel_"}
RNG = random.Random(11)
# Values with one key (4.9999999 and 5), values far from each other, and other types.
METADATA: list[dict[str, Any]] = [
    {
        "n": RNG.choice([n % 40, -n / 7, 5, 4.9999999, 5.0000001, str(n), [n], n * 1.5, n + 0.25, -n, *range(-9, 0)]),
        "date": f"2026-{1 + n % 12:02}-{1 + n % 28:02}",
        "kind": f"kind {n % 9}",
        "even": n % 2 == 0,
        "fifth": n % 5,
        "deep": {"x": n},
    }
    for n in range(ROWS)
]
FILTERS: list[dict[str, Any]] = [
    {"n": {"gte": 5}},
    {"n": {"gt": 5}},
    {"n": {"lt": 5}},
    {"n": {"gte": 4.9999999, "lt": 5}},
    {"n": 5},
    {"n": {"gt": -10, "lt": 2}},
    {"date": {"gte": "2026-03", "lt": "2026-05"}},
    {"date": {"gte": "2026-12-28"}},
    {"kind": "kind 3"},
    {"kind": "kind 3", "n": {"gt": 30}},
    {"even": True},
    {"deep.x": {"gte": 2990}},
    {"deep.x": {"lt": 1500}, "kind": ["kind 1", "kind 2"]},
    {"deep.x": {"lt": 100}, "or": [{"even": True}, {"n": {"exists": False}}]},
    {"deep.x": 17},
    {"deep.x": {"gt": 1e9}},
    {"kind": "none"},
]


@pytest.fixture(scope="module")
async def world(database: DatabaseUrls) -> AsyncIterator[MaintainedDatabase]:
    async with open_maintained_database(database, threshold=THRESHOLD) as opened:
        yield opened


@pytest.fixture(scope="module")
async def index(world: MaintainedDatabase) -> FilledIndex:
    made = await world.new_index(DIM)
    rows = [json.dumps(build_filter_metadata(row, reserved={})) for row in METADATA]
    await made.add(ROWS, metadata=rows)
    await made.maintain()
    assert (await made.state(), await made.names()) == ("hnsw", ALL)
    return made


async def by_looking_at_all(index: FilledIndex, query: Any, filter: Mapping[str, Any], k: int) -> list[UUID]:
    rows = await index.world.owner.fetch(
        "select chunk_id from chunk_embedding where index_id = $1 order by (embedding <=> $2) + 0.0, chunk_id",
        index.id, HalfVector(query),
    )  # fmt: skip
    of = dict(zip(index.vectors, METADATA, strict=True))
    return [row[0] for row in rows if passes_all(of[row[0]], filter)][:k]


def passes_all(row: dict[str, Any], filter: Mapping[str, Any]) -> bool:
    """Return whether a row passes, as in the model; dates have one format here and are compared as text."""
    if "date" in filter:
        bounds = filter["date"]
        return bool(bounds["gte"] <= row["date"] < bounds.get("lt", "9999"))
    return passes(row, dict(filter))


async def terms(index: FilledIndex, filter: Mapping[str, Any], table: str) -> int | None:
    """Return the number of terms that a search looks up; None if it reads rows."""
    compiled = compile_filter(filter)
    contains, path, lookups = compiled.sql_params
    owner = index.world.owner
    async with owner.transaction():
        await owner.execute("set local role carrel_search")
        await owner.execute("select set_config('app.tenant_id', $1, true)", str(index.tenant))
        # Forget the samples of the other search table.
        await owner.execute("select set_config('carrel.sample_' || s, '', false) from generate_series(0, 31) s")
        found: int | None = await owner.fetchval(
            f"select cardinality(terms) from search_sample($1, $2, $3, $4, $5, $6, p_dim => {table})",
            index.tenant, index.id, [SCOPE], contains, path, lookups,
        )  # fmt: skip
    return found


@pytest.mark.capability("ann-filter")
@pytest.mark.parametrize("filter", FILTERS, ids=str)
async def test_filtered_search_finds_nearest_matching_rows(index: FilledIndex, filter: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    for k in (1, 10, 200, 1000):
        query = rng.normal(size=DIM).astype(np.float32)
        found = [one for one, _ in await index.search(query, k=k, filter=compile_filter(filter))]
        assert found == await by_looking_at_all(index, query, filter, k)


@pytest.mark.parametrize(
    "filter",
    [
        {"deep.x": {"lt": 600}},
        {"deep.x": {"lt": 600}, "kind": {"not": "kind 3"}},
        {"deep.x": {"lt": 600}, "even": True},
        {"n": {"gte": 4.9999999, "lt": 5}},
        {"fifth": 3},
    ],
    ids=str,
)
async def test_filtered_search_looks_up_nearest_terms_only(index: FilledIndex, filter: dict[str, Any]) -> None:
    """By the counts many rows match; most of the values near 5 are found and do not pass."""
    owner, counts = (
        index.world.owner,
        "insert into index_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, $3, $3)",
    )
    await owner.execute(counts, index.tenant, index.id, 19_000)
    try:
        rng = np.random.default_rng(4)
        for k in (1, 10, 200, 1000):
            query = rng.normal(size=DIM).astype(np.float32)
            found = [one for one, _ in await index.search(query, k=k, filter=compile_filter(filter))]
            assert found == await by_looking_at_all(index, query, filter, k)
        assert await terms(index, filter, str(DIM)) is not None
    finally:
        await owner.execute("delete from index_totals where index_id = $1 and chunks = 19000", index.id)


async def test_filtered_search_uses_filter_index(index: FilledIndex) -> None:
    """The planner uses the index, and no row's terms are computed again."""
    owner = index.world.owner
    await owner.execute("analyze chunk_embedding_other; analyze chunk_lexical")
    for table, name in (("chunk_embedding", "filter_"), ("chunk_lexical", "filterl_")):
        rows = f"tenant_id = '{index.tenant}' and index_id = '{index.id}'"
        rows += f" and dim = {DIM}" if table == "chunk_embedding" else ""
        async with owner.transaction():
            await owner.execute("set local role carrel_search")
            wanted = await owner.fetchval('select lookup_terms(\'{"path": ["deep", "x"], "high": 100}\')')
            sql = f"explain (analyze, timing off) select chunk_id from {table} where {rows}"
            sql += " and filter_terms(metadata) && $1 and (metadata @@ '$.deep.x < 100') is true"
            plan = "\n".join(row[0] for row in await owner.fetch(sql, wanted))
        assert f"Bitmap Index Scan on {name}{index.id.hex}" in plan
        assert "Heap Blocks: exact" in plan


async def test_missing_filter_indexes_are_rebuilt(index: FilledIndex) -> None:
    owner, filter = index.world.owner, {"deep.x": {"gte": 2500}}
    await owner.execute("update search_index set deleted_chunks = 7 where id = $1", index.id)
    for lost in ("filterl_", "filter_"):
        await owner.execute(f"drop index {lost}{index.id.hex}")
        assert [await terms(index, filter, table) for table in (str(DIM), "null")] == [None, None]
        query = np.ones(DIM, np.float32)
        found = [one for one, _ in await index.search(query, k=50, filter=compile_filter(filter))]
        assert found == await by_looking_at_all(index, query, filter, 50)
    await owner.execute("delete from job")
    await index.world.maintenance.scan()
    assert {job["tenant_id"] for job in await index.world.jobs()} == {index.tenant}
    await index.world.maintenance.maintain(index.tenant, index.id)
    assert await index.names() == ALL
    assert None not in [await terms(index, filter, table) for table in (str(DIM), "null")]
    # Deleted chunks still slow the search, because the vector index is the old one.
    assert (await index.row())["deleted_chunks"] == 7


async def test_filter_index_pending_list_is_flushed(world: MaintainedDatabase) -> None:
    """Otherwise every search would read the whole pending list, up to four megabytes."""
    index = await world.new_index(DIM)
    await index.add(900)
    await index.maintain()
    names = [f"{name}_{index.id.hex}" for name in ("filter", "filterl")]
    pending = "select gin_clean_pending_list($1::text::regclass)"
    await index.add(50, seed=2)
    assert 0 not in [await world.owner.fetchval(pending, name) for name in names]
    await index.add(50, seed=3)
    await world.maintenance.scan()
    assert [await world.owner.fetchval(pending, name) for name in names] == [0, 0]


async def test_filter_matching_most_rows_is_not_looked_up(world: MaintainedDatabase) -> None:
    """Numbers of one key, rows of very many values, and values of all rows: the planner would compute every row's
    terms.
    """
    index = await world.new_index(DIM)
    many = {f"k{number}": number for number in range(140)}
    rows = [{"order": 202_600_000_000 + n, "all": "x", "deep": {"x": n}} | (many if n % 3 else {}) for n in range(2500)]
    await index.add(len(rows), metadata=[json.dumps(row) for row in rows])
    await index.maintain()
    assert await index.state() == "hnsw"
    for filter in ({"order": {"gte": 202_600_002_400}}, {"all": "x"}, {"deep.x": {"lt": 20}}):
        assert [await terms(index, filter, table) for table in (str(DIM), "null")] == [None, None], filter

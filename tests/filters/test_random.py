"""Random filters on random metadata: the database, with and without an index, agrees with the model."""

import json
import random
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.filters import CompiledFilter, build_filter_metadata, compile_filter
from tests.filters.filter_model import passes, random_filter, random_metadata


@pytest.fixture(scope="module")
async def connection(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    yield connection
    await connection.close()


@pytest.mark.capability("filter-random")
async def test_random_filters_in_database_equal_model(connection: asyncpg.Connection) -> None:
    rng = random.Random(20260105)
    metadata = [random_metadata(rng) for _ in range(4000)]
    expressions = [random_filter(rng) for _ in metadata]
    compiled = [compile_filter(expression) for expression in expressions]
    rows = await connection.fetch(
        """select (c is null or m::jsonb @> c::jsonb) and (p is null or (m::jsonb @@ p::jsonpath) is true) as passes
             from unnest($1::text[], $2::text[], $3::text[]) with ordinality as t(m, c, p, n) order by n""",
        [json.dumps(build_filter_metadata(row, reserved={})) for row in metadata],
        [None if each.contains is None else json.dumps(each.contains) for each in compiled],
        [each.path for each in compiled],
    )
    expected = [passes(row, expression) for row, expression in zip(metadata, expressions, strict=True)]
    wrong = [
        (row, expression, want)
        for row, expression, want, got in zip(metadata, expressions, expected, rows, strict=True)
        if got["passes"] is not want
    ]
    assert wrong == []
    assert 500 < sum(expected) < 3500


async def test_random_filters_with_index_equal_scan(connection: asyncpg.Connection) -> None:
    rng = random.Random(7)
    rows = [random_metadata(rng) for _ in range(500)]
    async with connection.transaction():
        await connection.execute("create temporary table lane (id int, metadata jsonb) on commit drop")
        await connection.executemany(
            "insert into lane values ($1, $2)",
            [(number, json.dumps(build_filter_metadata(row, reserved={}))) for number, row in enumerate(rows)],
        )
        await connection.execute("create index on lane using gin (metadata jsonb_path_ops)")
        await connection.execute("analyze lane; set local enable_seqscan = off")
        for _ in range(150):
            expression = random_filter(rng)
            found = await search_ids(connection, compile_filter(expression))
            assert found == [number for number, row in enumerate(rows) if passes(row, expression)], expression
        for expression in (
            {"a": 1},
            {"a": ["alpha", 1]},
            {"a": [f"v{i}" for i in range(50)]},
            {"or": [{"a": 1}, {"b": 2}]},
        ):
            assert "Bitmap Index Scan" in await search_plan(connection, compile_filter(expression))


LANE = "from lane where ($1::jsonb is null or metadata @> $1) and ($2::jsonpath is null or metadata @@ $2)"


async def search_ids(connection: asyncpg.Connection, compiled: CompiledFilter) -> list[int]:
    contains, path, _ = compiled.sql_params
    return [row["id"] for row in await connection.fetch(f"select id {LANE} order by id", contains, path)]


async def search_plan(connection: asyncpg.Connection, compiled: CompiledFilter) -> str:
    contains, path, _ = compiled.sql_params
    return "\n".join(row[0] for row in await connection.fetch(f"explain select id {LANE}", contains, path))

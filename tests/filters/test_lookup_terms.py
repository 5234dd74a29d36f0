"""Terms of metadata and lookups: they find every row that passes a filter, and few others."""

import json
import random
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from app.filters import build_filter_metadata, compile_filter
from tests.filters.filter_model import passes, random_filter, random_metadata

FINDS = """
select coalesce((select bool_and(coalesce(filter_terms(m::jsonb) && lookup_terms(one), false))
                   from jsonb_array_elements(l::jsonb) one), true) as finds
  from unnest($1::text[], $2::text[]) with ordinality as t(m, l, n) order by n"""


async def found(owner: asyncpg.Connection, rows: Sequence[Any], expressions: Sequence[dict[str, Any]]) -> list[bool]:
    """Return whether all lookups of each filter find its row."""
    lookups = [compile_filter(expression).lookups or [] for expression in expressions]
    metadata = [json.dumps(build_filter_metadata(row, reserved={})) for row in rows]
    async with owner.transaction():
        await owner.execute("set local role carrel_search")
        answers = await owner.fetch(FINDS, metadata, [json.dumps(each) for each in lookups])
    return [bool(row["finds"]) for row in answers]


async def test_lookup_terms_find_every_matching_row(owner: asyncpg.Connection) -> None:
    rng = random.Random(20261122)
    rows = [random_metadata(rng) for _ in range(6000)]
    expressions = [random_filter(rng) for _ in rows]
    finds = await found(owner, rows, expressions)
    missed = [
        (row, expression)
        for row, expression, finds_it in zip(rows, expressions, finds, strict=True)
        if passes(row, expression) and not finds_it
    ]
    assert missed == []
    assert finds.count(False) > 1000


NUMBERS = [
    0, -0.0, 1, -1, 0.1, 4.9999999, 5, 5.0000001, 2**31, 2**53 + 1, -(2**63), 10**25, 1e-300, -1e-300, 1e-320, -1e-320,
    1.7e308, -1.7e308, 2**1023, 1e300, 1e301, 999.5, 1000, 1024, 65535, 65536, -1024.25,
]  # fmt: skip


async def test_lookup_terms_find_numbers_at_every_bound(owner: asyncpg.Connection) -> None:
    cases = [(value, operator, bound) for value in NUMBERS for operator in ("gte", "lte") for bound in NUMBERS]
    cases += [(value, "gte", value) for value in NUMBERS]
    finds = await found(owner, [{"n": value} for value, _, _ in cases], [{"n": {o: bound}} for _, o, bound in cases])
    right = [value >= bound if operator == "gte" else value <= bound for value, operator, bound in cases]
    assert [
        case for case, is_right, finds_it in zip(cases, right, finds, strict=True) if is_right and not finds_it
    ] == []
    # Other values may differ from the bounds by very little.
    close = [
        case
        for case, is_right, finds_it in zip(cases, right, finds, strict=True)
        if finds_it and not is_right and abs(case[0] - case[2]) > 1e-5 * max(abs(case[0]), abs(case[2]), 1e-290)
        and max(abs(case[0]), abs(case[2])) < 1e300
    ]  # fmt: skip
    assert close == []


@pytest.mark.parametrize(
    ("value", "expression", "finds"),
    [
        ("2026-05-17T10:30:00Z", {"gte": "2026-05-17"}, True),
        ("2026-05-17T10:30:00Z", {"gte": "2026-05-17T10:30:00Z", "lte": "2026-05-17T10:30:00Z"}, True),
        ("2026-05-17T10:30:00Z", {"gt": "2026-05-17T10:33:00Z"}, False),
        ("2026-05-17T10:30:00Z", {"lt": "2026-05"}, False),
        ("2026-05-17T23:30:00-02:00", {"gte": "2026-05-18T01:00:00Z"}, True),
        ("0001", {"lt": "0002"}, True),
        ("9999-12-31T23:59:59Z", {"gte": "9999-12-31"}, True),
        ("9999-12-31", {"lt": "0002"}, False),
        ("tomorrow", {"gte": "0001"}, False),
        (True, True, True),
        (True, "true", False),
        ("true", True, False),
        ("é\u001f\"\\", "é\u001f\"\\", True),
        ("1", 1, False),
        (1, 1.0, True),
        ([1], 1, False),
        ([1], {"gte": 0}, False),
        ({"x": 1}, {"gte": 0}, False),
    ],
    ids=str,
)  # fmt: skip
async def test_lookup_terms_depend_on_type_of_value(
    owner: asyncpg.Connection, value: Any, expression: Any, finds: bool
) -> None:
    assert await found(owner, [{"a": {"b": value}}], [{"a.b": expression}]) == [finds]


async def test_lookup_terms_row_with_many_values_matches_all(owner: asyncpg.Connection) -> None:
    rows = [{f"k{number}": number for number in range(count)} for count in (120, 1100)]
    assert await found(owner, rows, [{"other": 5}] * 2) == [False, True]
    assert await owner.fetchval("select filter_terms('{}')") is None


async def test_lookup_terms_of_range_are_few_and_precise(owner: asyncpg.Connection) -> None:
    rng = random.Random(5)
    for _ in range(20):
        low = rng.uniform(-1e6, 1e6)
        high = low + rng.uniform(0.01, 1e6)
        lookup = json.dumps({"path": ["n"], "low": low, "high": high})
        values = [rng.uniform(-2e6, 2e6) for _ in range(500)]
        async with owner.transaction():
            await owner.execute("set local role carrel_search")
            terms = await owner.fetchval("select lookup_terms($1)", lookup)
            finds = await owner.fetchval(
                "select array_agg(filter_terms(jsonb_build_object('n', v)) && $2 order by n)"
                " from unnest($1::float8[]) with ordinality x(v, n)",
                values, terms,
            )  # fmt: skip
        assert len(terms) < 250
        beyond = [value for value, one in zip(values, finds, strict=True) if one and not low <= value <= high]
        assert len(beyond) <= 2

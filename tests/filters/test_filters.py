"""Filter language, case by case, in the database."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.errors import InvalidInputError
from app.filters import CHUNK_NAMES, EXPIRY, CompiledFilter, build_filter_metadata, check_metadata, compile_filter
from app.filters.values import Loc
from tests.filters.filter_cases import CASES
from tests.filters.filter_model import evaluate


@pytest.fixture(scope="module")
async def connection(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    yield connection
    await connection.close()


@pytest.mark.capability("filter-language")
@pytest.mark.parametrize(("metadata", "expression", "matches"), CASES, ids=lambda value: json.dumps(value)[:70])
async def test_filter_documented_case_has_documented_result(
    connection: asyncpg.Connection, metadata: dict[str, Any], expression: dict[str, Any], matches: bool
) -> None:
    assert await evaluate(connection, check_metadata(metadata), compile_filter(expression)) is matches
    # Filters inside "or" use only the jsonpath, so it alone must give the same result. "not" is the complement.
    if expression:
        assert await evaluate(connection, metadata, compile_filter({"or": [expression, expression]})) is matches
        assert await evaluate(connection, metadata, compile_filter({"not": expression})) is not matches


RESERVED = {
    "$document_id": "doc_1",
    "$source": "handbook.pdf",
    "$source_uri": "https://example.com/handbook.pdf",
    "$source_created_at": "2026-01-05T00:00:00Z",
    "$media_type": "application/pdf",
    "$title": "Handbook",
    "$created_at": "2026-02-01T12:30:00.123456+00:00",
    "$page": 3,
    "$node": "node_1",
    "$suspicious": "instructions",
}


@pytest.mark.capability("filter-reserved")
@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        *(({name: value}, True) for name, value in RESERVED.items()),
        ({"$document_id": ["doc_2", "doc_1"]}, True),
        ({"$source_uri": {"contains": "example.com"}}, True),
        ({"$source_created_at": {"gte": "2026-01", "lt": "2026-02"}}, True),
        ({"$source_created_at": {"gt": "2026-01-05"}}, False),
        ({"$created_at": {"gte": "2026-02-01T13:30:00.123456+01:00", "lt": "2026-03"}}, True),
        ({"$page": {"gte": 3, "lt": 4}}, True),
        ({"$page": {"gt": 3}}, False),
        ({"$title": {"exists": True}, "$page": 3, "department": "hr"}, True),
        ({"$title": {"not": "Handbook"}}, False),
    ],
)
async def test_filter_reserved_names_match(
    connection: asyncpg.Connection, expression: dict[str, Any], matches: bool
) -> None:
    row = build_filter_metadata({"department": "hr"}, reserved=RESERVED)
    assert await evaluate(connection, row, compile_filter(expression)) is matches


@pytest.mark.parametrize(
    ("ends", "lasts"),
    [
        (None, True),
        ("2026-01-05T00:00:00+00:00", False),
        ("2026-01-05T01:00:00.000001+01:00", True),
        ("2025-12-31T23:59:59+00:00", False),
        ("2027-01-01T00:00:00+00:00", True),
    ],
)
async def test_filter_excludes_expired_rows(connection: asyncpg.Connection, ends: str | None, lasts: bool) -> None:
    row = build_filter_metadata({"a": 1}, reserved={} if ends is None else {EXPIRY: ends})
    now = datetime(2026, 1, 5, tzinfo=UTC)
    for expression, passes in [(None, True), ({"a": 1}, True), ({"a": {"gt": 0}}, True), ({"a": {"gt": 1}}, False)]:
        compiled = compile_filter(expression).exclude_expired(now)
        assert await evaluate(connection, row, compiled) is (lasts and passes), expression


@pytest.mark.parametrize(
    ("expression", "loc"),
    [
        ({"$page": 1}, ("$page",)),
        ({"a": "x", "$node": {"exists": False}}, ("$node",)),
        ({"or": [{"a": "x"}, {"not": {"$suspicious": ["instructions"]}}]}, ("or", 1, "not", "$suspicious")),
    ],
)
def test_filter_excluded_names_are_refused_with_location(expression: dict[str, Any], loc: Loc) -> None:
    with pytest.raises(InvalidInputError) as caught:
        compile_filter(expression, excluded_names=CHUNK_NAMES)
    assert caught.value.loc == ("filter", *loc)


def test_filter_guard_may_use_every_name() -> None:
    own = {"$suspicious": {"exists": False}}
    assert compile_filter({"a": "x"}, enforced_filter=own, excluded_names=CHUNK_NAMES).contains == {"a": "x"}


def test_filter_equalities_use_containment() -> None:
    compiled = compile_filter({"a": "x", "b.c": 1, "and": [{"b.d": None}, {"n": {"contains": 5}}]})
    assert (compiled.contains, compiled.path) == ({"a": "x", "b": {"c": 1, "d": None}, "n": [5]}, None)
    assert compile_filter(None) == compile_filter({}) == CompiledFilter(contains=None, path=None)
    contradiction = compile_filter({"and": [{"a": 1}, {"a": 2}, {"a.b": 3}]})
    assert contradiction.contains == {"a": 1}
    assert contradiction.path is not None


@pytest.mark.parametrize(
    ("expression", "lookups"),
    [
        ({"a": "x"}, [{"path": ["a"], "equal": "x"}]),
        ({"n": {"gte": 3}}, [{"path": ["n"], "low": 3}]),
        ({"n": {"gt": 3, "lte": 5}}, [{"path": ["n"], "low": 3, "high": 5}]),
        ({"and": [{"n": {"gt": 3}}, {"n": {"lt": 5}}]}, [{"path": ["n"], "low": 3, "high": 5}]),
        ({"d.e": {"lt": "2026-01"}}, [{"path": ["$instants", "d", "e"], "high": "2026-01-01T00:00:00.000000Z"}]),
        # Lookups that probably find few rows come first, and most others are left out.
        ({"m": {"gt": 0}, "n": {"gt": 3, "lt": 5}}, [{"path": ["n"], "low": 3, "high": 5}, {"path": ["m"], "low": 0}]),
        (
            {"flag": True, "n": {"gt": 3, "lt": 5}, "a": "x"},
            [{"path": ["a"], "equal": "x"}, {"path": ["n"], "low": 3, "high": 5}, {"path": ["flag"], "equal": True}],
        ),
        (dict.fromkeys("abcdef", "x"), [{"path": [name], "equal": "x"} for name in "abcd"]),
        ({"flag": False}, [{"path": ["flag"], "equal": False}]),
        # A condition that is not required is not looked up.
        ({"or": [{"a": "x"}, {"n": 3}]}, None),
        ({"not": {"a": "x"}}, None),
        ({"n": {"not": {"gt": 3}}}, None),
        ({"a": None}, None),
        ({"a": ["x"]}, None),
        ({"a": {"contains": 5}}, None),
        ({"$node": "nod_1"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_filter_lookups_are_chosen(expression: dict[str, Any], lookups: list[dict[str, Any]] | None) -> None:
    assert compile_filter(expression).lookups == lookups


def test_filter_conditions_of_every_row_are_not_looked_up() -> None:
    compiled = compile_filter({"n": {"lt": 5}}, enforced_filter={"team": "x"})
    assert (compiled.contains, compiled.lookups) == ({"team": "x"}, [{"path": ["n"], "high": 5}])

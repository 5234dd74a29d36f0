"""The filter language case by case, against the database that evaluates it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.filters import CompiledFilter, check_metadata, compile_filter, filterable_metadata
from tests.filters.filter_model import evaluate


@pytest.fixture(scope="module")
async def connection(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.url("postgres"))
    yield connection
    await connection.close()


CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    # equality
    ({"status": "published"}, {"status": "published"}, True),
    ({"status": "Published"}, {"status": "published"}, False),
    ({"status": "draft"}, {"status": "published"}, False),
    ({}, {"status": "published"}, False),
    ({"status": None}, {"status": "published"}, False),
    ({"year": 2024}, {"year": "2024"}, False),
    ({"year": "2024"}, {"year": 2024}, False),
    ({"year": 2024}, {"year": 2024.0}, True),
    ({"flag": True}, {"flag": True}, True),
    ({"flag": True}, {"flag": 1}, False),
    ({"flag": 1}, {"flag": True}, False),
    ({"flag": 0}, {"flag": False}, False),
    ({"big": 10**30}, {"big": 10**30}, True),
    ({"big": 10**30 + 1}, {"big": 10**30}, False),
    ({"price": 0.1}, {"price": 0.1}, True),
    ({"k": None}, {"k": None}, True),
    ({}, {"k": None}, False),
    ({"k": False}, {"k": None}, False),
    ({"tags": ["alpha"]}, {"tags": "alpha"}, False),
    ({"tags": []}, {"tags": None}, False),
    ({"k": {"a": 1}}, {"k": 1}, False),
    ({"date": "2026-01-01"}, {"date": "2026-01"}, False),
    # several keys
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"a": 1, "b": 3}, {"a": 1, "b": 2}, False),
    ({"a": 1}, {}, True),
    ({"a": 1}, {"and": [{"a": 1}, {"a": 1}]}, True),
    ({"a": 1}, {"and": [{"a": 1}, {"a": 2}]}, False),
    ({"a": {"b": 2, "c": 3}}, {"a.b": 2, "a.c": 3}, True),
    ({"a": {"b": 2, "c": 3}}, {"a.b": 2, "a.c": 4}, False),
    ({"a": {"b": 2}}, {"a.b": 2, "a": 1}, False),
    # any-of
    ({"language": "en"}, {"language": ["en", "fr"]}, True),
    ({"language": "de"}, {"language": ["en", "fr"]}, False),
    ({}, {"language": ["en", "fr"]}, False),
    ({}, {"language": [None]}, False),
    ({"language": None}, {"language": ["en", None]}, True),
    ({"tags": ["beta", "alpha"]}, {"tags": ["alpha", "gamma"]}, True),
    ({"tags": [7, {"x": 1}, None, "alpha"]}, {"tags": ["alpha", "gamma"]}, True),
    ({"tags": [["alpha"]]}, {"tags": ["alpha"]}, False),
    ({"tags": {"alpha": "alpha"}}, {"tags": ["alpha"]}, False),
    ({"tags": []}, {"tags": ["alpha"]}, False),
    ({"tags": []}, {"tags": []}, False),
    ({"language": "en"}, {"language": []}, False),
    ({"n": 1.0}, {"n": [True, "1", 1]}, True),
    ({"n": True}, {"n": [1, "true"]}, False),
    ({"n": 3}, {"n": ["a", "b", "c", "d", "e", 1, 2, 3, 4, 5, -6, 0.5]}, True),
    ({"n": "c"}, {"n": ["a", "b", "c", "d", "e", 1, 2, 3, 4, 5, -6, 0.5]}, True),
    ({"n": -6}, {"n": ["a", "b", "c", "d", "e", 1, 2, 3, 4, 5, -6, 0.5]}, True),
    ({"n": "cc"}, {"n": ["a", "b", "c", "d", "e", 1, 2, 3, 4, 5, -6, 0.5]}, False),
    # ranges on numbers
    ({"year": 2024}, {"year": {"gte": 2024}}, True),
    ({"year": 2024}, {"year": {"gt": 2024}}, False),
    ({"year": 2024}, {"year": {"lte": 2024}}, True),
    ({"year": 2024}, {"year": {"lt": 2024}}, False),
    ({"year": 2024}, {"year": {"gte": 2020, "lt": 2024.5}}, True),
    ({"year": 2025}, {"year": {"gte": 2020, "lt": 2024.5}}, False),
    ({"t": -3}, {"t": {"gt": -4, "lt": -2.5}}, True),
    ({}, {"year": {"gte": 0}}, False),
    ({"year": None}, {"year": {"gte": 0}}, False),
    ({"year": True}, {"year": {"gte": 0}}, False),
    ({"year": "2024"}, {"year": {"gte": 0}}, False),
    ({"year": [2024]}, {"year": {"gte": 0}}, False),
    ({"big": 10**30 + 1}, {"big": {"gt": 10**30}}, True),
    # ranges on dates
    ({"d": "2026-01-05"}, {"d": {"gte": "2026-01"}}, True),
    ({"d": "2025-12-31"}, {"d": {"gte": "2026-01"}}, False),
    ({"d": "2026-01"}, {"d": {"gte": "2026-01-01", "lte": "2026-01-01T00:00:00Z"}}, True),
    ({"d": "2026-01-01"}, {"d": {"gt": "2026-01"}}, False),
    ({"d": "2026-01-31T10:00:00"}, {"d": {"lte": "2026-01-31"}}, False),
    ({"d": "2026"}, {"d": {"lt": "2026-01-01T00:00:00.000001Z"}}, True),
    ({"d": "2026-01-05T10:00:00+02:00"}, {"d": {"gte": "2026-01-05T08:00Z", "lte": "2026-01-05T08:00:00"}}, True),
    ({"d": "2026-01-01T00:30:00+01:00"}, {"d": {"lt": "2026"}}, True),
    ({"d": "2026-01-05T10:00:00Z"}, {"d": {"lt": "2026-01-05T10:00:00.5Z"}}, True),
    ({"d": "2026-01-05T10:00Z"}, {"d": {"lt": "2026-01-05T10:00:30Z"}}, True),
    ({"d": "2026-01-05 10:00:00-0330"}, {"d": {"gte": "2026-01-05T13:30:00Z", "lt": "2026-01-05T13:30:01Z"}}, True),
    ({"d": "2026-02-30"}, {"d": {"gte": "0001"}}, False),
    ({"d": "yesterday"}, {"d": {"gte": "0001"}}, False),
    ({"d": 2026}, {"d": {"gte": "2020"}}, False),
    ({"d": "2026"}, {"d": {"gte": 2020}}, False),
    ({"d": ["2026-01-05"]}, {"d": {"gte": "2020"}}, False),
    ({}, {"d": {"lt": "2030"}}, False),
    ({"d": None}, {"d": {"lt": "2030"}}, False),
    ({"a": {"d": "2026-01-05"}}, {"a.d": {"gte": "2026", "lt": "2027"}}, True),
    ({"d": "2026-01-05"}, {"d": {"gte": "2026", "lt": 3000}}, False),
    # contains
    ({"tags": ["alpha", "beta"]}, {"tags": {"contains": "alpha"}}, True),
    ({"tags": ["alphabet"]}, {"tags": {"contains": "alpha"}}, False),
    ({"tags": "the alphabet"}, {"tags": {"contains": "alpha"}}, True),
    ({"tags": "the Alphabet"}, {"tags": {"contains": "alpha"}}, False),
    ({"tags": []}, {"tags": {"contains": "alpha"}}, False),
    ({}, {"tags": {"contains": "alpha"}}, False),
    ({"tags": None}, {"tags": {"contains": "alpha"}}, False),
    ({"tags": {"alpha": 1}}, {"tags": {"contains": "alpha"}}, False),
    ({"tags": [1, None, "alpha"]}, {"tags": {"contains": "alpha"}}, True),
    ({"tags": [["alpha"]]}, {"tags": {"contains": "alpha"}}, False),
    ({"n": [1, 2]}, {"n": {"contains": 2.0}}, True),
    ({"n": [1, 2]}, {"n": {"contains": True}}, False),
    ({"n": 2}, {"n": {"contains": 2}}, False),
    ({"n": 12}, {"n": {"contains": "2"}}, False),
    ({"n": [None]}, {"n": {"contains": None}}, True),
    ({"n": [1, 2]}, {"and": [{"n": {"contains": 1}}, {"n": {"contains": 2}}]}, True),
    ({"n": [1, 3]}, {"and": [{"n": {"contains": 1}}, {"n": {"contains": 2}}]}, False),
    ({"s": "any text"}, {"s": {"contains": ""}}, True),
    ({"s": ["x"]}, {"s": {"contains": ""}}, False),
    ({"s": "a.c"}, {"s": {"contains": "."}}, True),
    ({"s": "abc"}, {"s": {"contains": "."}}, False),
    ({"s": "line\nbreak"}, {"s": {"contains": "e\nb"}}, True),
    # not
    ({"deprecated": True}, {"deprecated": {"not": True}}, False),
    ({"deprecated": False}, {"deprecated": {"not": True}}, True),
    ({"deprecated": "true"}, {"deprecated": {"not": True}}, True),
    ({"deprecated": None}, {"deprecated": {"not": True}}, True),
    ({}, {"deprecated": {"not": True}}, True),
    ({}, {"k": {"not": None}}, True),
    ({"k": None}, {"k": {"not": None}}, False),
    ({"k": "en"}, {"k": {"not": ["en", "fr"]}}, False),
    ({"k": ["de", "fr"]}, {"k": {"not": ["en", "fr"]}}, False),
    ({"k": ["de"]}, {"k": {"not": ["en", "fr"]}}, True),
    ({}, {"k": {"not": []}}, True),
    ({"year": 2024}, {"year": {"not": {"gte": 2020, "lt": 2025}}}, False),
    ({"year": 2025}, {"year": {"not": {"gte": 2020, "lt": 2025}}}, True),
    ({"year": "x"}, {"year": {"not": {"gte": 2020}}}, True),
    ({"year": 2024}, {"year": {"not": {"not": 2024}}}, True),
    ({"tags": ["alpha"]}, {"tags": {"not": {"contains": "alpha"}}}, False),
    ({}, {"not": {"a": 1, "b": 2}}, True),
    ({"a": 1, "b": 3}, {"not": {"a": 1, "b": 2}}, True),
    ({"a": 1, "b": 2}, {"not": {"a": 1, "b": 2}}, False),
    ({"a": 1}, {"not": {"or": [{"a": 1}, {"b": 2}]}}, False),
    ({"a": 2}, {"not": {"or": [{"a": 1}, {"b": 2}]}}, True),
    # exists
    ({"k": 1}, {"k": {"exists": True}}, True),
    ({"k": None}, {"k": {"exists": True}}, True),
    ({"k": []}, {"k": {"exists": True}}, True),
    ({}, {"k": {"exists": True}}, False),
    ({"k": None}, {"k": {"exists": False}}, False),
    ({}, {"k": {"exists": False}}, True),
    ({"a": {"b": 1}}, {"a.b": {"exists": True}}, True),
    ({"a": 1}, {"a.b": {"exists": True}}, False),
    ({"a": 1}, {"a.b": {"exists": False}}, True),
    ({"k": 1}, {"k": {"exists": True, "not": 2}}, True),
    ({}, {"k": {"exists": True, "not": 2}}, False),
    # and, or
    ({"a": 1}, {"or": [{"a": 1}, {"b": 2}]}, True),
    ({"b": 2}, {"or": [{"a": 1}, {"b": 2}]}, True),
    ({"b": 1}, {"or": [{"a": 1}, {"b": 2}]}, False),
    ({"b": 2, "c": 3}, {"or": [{"a": 1}, {"b": 2}], "c": 3}, True),
    ({"b": 2, "c": 4}, {"or": [{"a": 1}, {"b": 2}], "c": 3}, False),
    ({"b": 2}, {"and": [{"or": [{"a": {"gt": 0}}, {"b": 2}]}, {"not": {"c": 1}}]}, True),
    # paths
    ({"author": {"name": "x"}}, {"author.name": "x"}, True),
    ({"author.name": "x"}, {"author.name": "x"}, False),
    ({"author.name": "x"}, {"author\\.name": "x"}, True),
    ({"author": {"name": "x"}}, {"author\\.name": "x"}, False),
    ({"a\\b": "x"}, {"a\\\\b": "x"}, True),
    ({"and": "x"}, {"\\and": "x"}, True),
    ({"or": {"not": "x"}}, {"or.not": "x"}, True),
    ({"author": [{"name": "x"}]}, {"author.name": "x"}, False),
    ({"author": [{"name": "x"}]}, {"author.name": ["x"]}, False),
    ({"list": ["x"]}, {"list.0": "x"}, False),
    ({"0": "x"}, {"0": "x"}, True),
]


@pytest.mark.parametrize(("metadata", "expression", "matches"), CASES, ids=lambda value: json.dumps(value)[:70])
async def test_documented_case(
    connection: asyncpg.Connection, metadata: dict[str, Any], expression: dict[str, Any], matches: bool
) -> None:
    assert await evaluate(connection, check_metadata(metadata), compile_filter(expression)) is matches
    # Inside "or" nothing goes to the containment: the jsonpath alone must say the same. And "not" is the complement.
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
}


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
async def test_reserved_names(connection: asyncpg.Connection, expression: dict[str, Any], matches: bool) -> None:
    row = filterable_metadata({"department": "hr"}, reserved=RESERVED)
    assert await evaluate(connection, row, compile_filter(expression)) is matches


def test_equalities_go_to_the_containment() -> None:
    compiled = compile_filter({"a": "x", "b.c": 1, "and": [{"b.d": None}, {"n": {"contains": 5}}]})
    assert compiled == CompiledFilter(contains={"a": "x", "b": {"c": 1, "d": None}, "n": [5]}, path=None)
    assert compile_filter(None) == compile_filter({}) == CompiledFilter(contains=None, path=None)
    contradiction = compile_filter({"and": [{"a": 1}, {"a": 2}, {"a.b": 3}]})
    assert contradiction.contains == {"a": 1}
    assert contradiction.path is not None

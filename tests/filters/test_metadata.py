"""Validation of metadata: stored values, refused values, and the filter metadata of a row."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.errors import InvalidInputError
from app.filters import build_filter_metadata, check_metadata


@pytest.fixture(scope="module")
async def connection(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    yield connection
    await connection.close()


def test_filter_metadata_preserves_callers_values() -> None:
    metadata = {"d": "2026-01-05T10:00:00+02:00", "a": {"d": "2026", "x": "y"}, "list": ["2026"], "n": 2026}
    before = json.dumps(metadata)
    row = build_filter_metadata(metadata, reserved={"$page": 3})
    assert json.dumps(metadata) == before
    assert row.pop("$instants") == {"d": "2026-01-05T08:00:00.000000Z", "a": {"d": "2026-01-01T00:00:00.000000Z"}}
    assert row == {**metadata, "$page": 3}
    assert build_filter_metadata({"a": "b"}, reserved={}) == {"a": "b"}
    with pytest.raises(ValueError, match="tenant"):
        build_filter_metadata({}, reserved={"$tenant": "x"})


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"a": None, "b": [1, 2.5, True, "x", {"c": []}], "": "", "a.b": "dots", "and": 1, "n": 10**300},
        {"a": {"$inner": 1}},
        {"1": {"2": {"3": {"4": {"5": {"6": {"7": {"8": "deepest"}}}}}}}},
        {"k": "é" * ((16 * 1024 - len('{"k":""}')) // 2)},
    ],
    ids=range(5),
)
async def test_valid_metadata_is_stored_unchanged(connection: asyncpg.Connection, metadata: dict[str, Any]) -> None:
    assert check_metadata(metadata) is metadata
    row = build_filter_metadata(metadata, reserved={})
    assert json.loads(await connection.fetchval("select $1::jsonb", json.dumps(row))) == row


@pytest.mark.parametrize(
    ("metadata", "loc"),
    [
        (None, ()),
        ([], ()),
        ("{}", ()),
        ({"$page": 1}, ("$page",)),
        ({"$": 1}, ("$",)),
        ({"a": {"b": ["x\0"]}}, ("a", "b", 0)),
        ({"a": "\ud83d"}, ("a",)),
        ({"a": {"\0": 1}}, ("a",)),
        ({"\udc00": 1}, ()),
        ({"a": {1: 1.5}}, ("a",)),
        ({"a": {None: 1}}, ("a",)),
        ({"a": float("nan")}, ("a",)),
        ({"a": [float("inf")]}, ("a", 0)),
        ({"a": 10**309}, ("a",)),
        ({"a": -(10**5000)}, ("a",)),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, ("a",)),
        ({"a": {"b"}}, ("a",)),
        ({"1": {"2": {"3": {"4": {"5": {"6": {"7": {"8": {}}}}}}}}}, tuple("12345678")),
        ({"1": [[[[[[[[]]]]]]]]}, ("1", 0, 0, 0, 0, 0, 0, 0)),
        ({"k": "é" * 8192}, ()),
        ({str(number): number for number in range(5000)}, ()),
    ],
    ids=range(21),
)
def test_invalid_metadata_is_refused(metadata: Any, loc: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_metadata(metadata)
    assert caught.value.loc == ("metadata", *loc)
    assert json.dumps([caught.value.message, *caught.value.loc], ensure_ascii=False).encode()


def test_metadata_above_size_limit_is_refused_before_check_of_values() -> None:
    # The last value is one that only a full check would refuse.
    with pytest.raises(InvalidInputError, match="at most 16384 bytes"):
        check_metadata({"a": [*range(10_000), "\0"]})

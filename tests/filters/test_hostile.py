"""Hostile filters: refused, or taken literally; the database accepts every compiled filter."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from app.embedded_postgres import EmbeddedPostgres
from app.errors import InvalidInputError
from app.filters import compile_filter
from tests.filters.filter_model import evaluate, passes


@pytest.fixture(scope="module")
async def connection(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    yield connection
    await connection.close()


HOSTILE = [
    '"',
    "\\",
    '\\"',
    "'",
    "'; drop table chunk; --",
    '") || (1 == 1',
    '" || 1 == 1 || "',
    '")) || ((exists($',
    'x" flag "i',
    "$",
    "$var",
    "$.*",
    "@",
    "**",
    "[*]",
    "(a+)+$",
    ".*",
    "^",
    "(?i)a",
    "***=x",
    "***:x",
    "[[:alpha:]",
    "\\u0041",
    "\\x41",
    "\u0001\u001f\u007f",
    "\u2028\u2029",
    "\r\n\t\b\f\v",
    "/* */",
    "--",
    "😀",
    "e\u0301",
    "\ufeff",
    "\uffff",
    "%s %(a)s :a {0} $1",
    "null",
    "true",
    "a" * 256,
]


@pytest.mark.capability("filter-hostile")
@pytest.mark.parametrize("text", HOSTILE)
async def test_filter_hostile_text_is_literal(connection: asyncpg.Connection, text: str) -> None:
    key = "".join(f"\\{character}" if character in "\\." else character for character in text)[:256]
    name = text[:256]
    cases: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
        ({"k": text}, {"or": [{"k": text}]}, True),
        ({"k": "other"}, {"or": [{"k": text}]}, False),
        ({"k": "other"}, {"k": [text]}, False),
        ({"k": [text]}, {"k": [text, "x", "y", "z", "1", "2"]}, True),
        ({"k": f"<{text}>"}, {"k": {"contains": text}}, True),
        ({"k": "other"}, {"k": {"contains": text}}, False),
        ({"k": f"{text}>"}, {"k": {"starts_with": text}}, True),
        ({"k": f"<{text}"}, {"k": {"ends_with": text}}, True),
        ({"k": "other"}, {"k": {"starts_with": text}}, False),
        ({"k": "other"}, {"k": {"ends_with": text}}, False),
        ({"k": f"{text}>"}, {"k": {"ends_with": text}}, False),
        ({"k": text.swapcase()}, {"k": {"contains": text}}, text == text.swapcase()),
    ]
    if not name.startswith("$"):
        cases += [
            ({name: 1}, {key: {"gte": 1}}, True),
            ({"k": 1}, {key: {"gte": 1}}, False),
            ({"k": 1}, {key: {"exists": True}}, False),
            ({name: {name: "v"}}, {f"{key}.{key}"[:256]: ["v"]}, len(f"{key}.{key}") <= 256),
        ]
    for metadata, expression, matches in cases:
        assert await evaluate(connection, metadata, compile_filter(expression)) is matches, (metadata, expression)


def nested(levels: int) -> dict[str, Any]:
    expression: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        expression = {"or": [expression, {"b": {"not": 2}}]}
    return expression


AT_THE_LIMIT: list[dict[str, Any]] = [
    nested(8),
    {"or": [{"k": {"gte": number}} for number in range(198)], "a": {"not": 1}},
    {"not": {"k": [f"doc_{number:026d}" for number in range(1000)]}},
    {"not": {"k": [number / 3 for number in range(1000)]}, "j": ["x"] * 1000},
    {"k": "x" * 4096, "or": [{"j": "é" * 4096}]},
    {"k" * 256: {"not": {"exists": True}}},
    {"a." * 127 + "ab": {"exists": False}},
    {"or": [{"k": {"contains": "".join(chr(0x4E00 + (n * 31 + i) % 20000) for n in range(256))}} for i in range(16)]},
    {"or": [{"k": {"contains": "(x+x+)+" * 36}}]},
    {"or": [{"k": {"ends_with": "(x+x+)+" * 36}}, {"k": {"starts_with": "x" * 4096}}]},
    {"or": [{"k": {"ends_with": "\\*" * 127 + chr(0x4E00 + i)}} for i in range(16)]},
    {"k": {"gte": -(2**1023), "lte": 1.7976931348623157e308}, "or": [{"k": 5e-324}, {"k": {"gt": -0.0}}]},
    {"d": {"gte": "0001-01-01T00:00:00Z", "lt": "9999-12-31T23:59:59.999999999Z"}},
]


@pytest.mark.parametrize("expression", AT_THE_LIMIT, ids=range(len(AT_THE_LIMIT)))
async def test_filter_every_compiled_filter_is_accepted_by_database(
    connection: asyncpg.Connection, expression: dict[str, Any]
) -> None:
    samples: list[dict[str, Any]] = [{}, {"k": 1}, {"k": "x"}, {"k": ["x", 1, None]}, {"a": {"a": {}}}]
    for metadata in samples:
        assert await evaluate(connection, metadata, compile_filter(expression)) is passes(metadata, expression)


REFUSED: list[tuple[Any, tuple[str | int, ...]]] = [
    ([], ("filter",)),
    ("x", ("filter",)),
    ({"and": []}, ("filter", "and")),
    ({"or": []}, ("filter", "or")),
    ({"or": {"a": 1}}, ("filter", "or")),
    ({"and": [{}]}, ("filter", "and", 0)),
    ({"and": [1]}, ("filter", "and", 0)),
    ({"not": {}}, ("filter", "not")),
    ({"not": [{"a": 1}]}, ("filter", "not")),
    ({"k": {}}, ("filter", "k")),
    ({"k": {"name": "x"}}, ("filter", "k")),
    ({"k": {"$gt": 1}}, ("filter", "k")),
    ({"k": {"\ud800": 1}}, ("filter", "k")),
    ({"k": {"gte": "soon"}}, ("filter", "k", "gte")),
    ({"k": {"gte": "2026-13"}}, ("filter", "k", "gte")),
    ({"k": {"gte": "2026-1-5"}}, ("filter", "k", "gte")),
    ({"k": {"gte": "2026-01-05T10:00:00+24:00"}}, ("filter", "k", "gte")),
    ({"k": {"gte": "0001-01-01T00:00:00+01:00"}}, ("filter", "k", "gte")),
    ({"k": {"gte": "٢٠٢٦"}}, ("filter", "k", "gte")),
    ({"k": {"gte": True}}, ("filter", "k", "gte")),
    ({"k": {"gte": None}}, ("filter", "k", "gte")),
    ({"k": {"gte": [1]}}, ("filter", "k", "gte")),
    ({"k": {"exists": 1}}, ("filter", "k", "exists")),
    ({"k": {"exists": "true"}}, ("filter", "k", "exists")),
    ({"k": {"contains": ["a"]}}, ("filter", "k", "contains")),
    ({"k": {"contains": "x" * 257}}, ("filter", "k", "contains")),
    ({"k": {"starts_with": 1}}, ("filter", "k", "starts_with")),
    ({"k": {"starts_with": ["a"]}}, ("filter", "k", "starts_with")),
    ({"k": {"ends_with": None}}, ("filter", "k", "ends_with")),
    ({"k": {"ends_with": "x" * 257}}, ("filter", "k", "ends_with")),
    ({"k": {"not": {}}}, ("filter", "k", "not")),
    ({"k": [["a"]]}, ("filter", "k", 0)),
    ({"k": ["a", {"b": 1}]}, ("filter", "k", 1)),
    ({"k": float("nan")}, ("filter", "k")),
    ({"k": [1, float("inf")]}, ("filter", "k", 1)),
    ({"k": {"gt": float("-inf")}}, ("filter", "k", "gt")),
    ({"k": 10**309}, ("filter", "k")),
    ({"k": 10**5000}, ("filter", "k")),
    ({"k": b"x"}, ("filter", "k")),
    ({"k": "a\0b"}, ("filter", "k")),
    ({"k": "\ud800"}, ("filter", "k")),
    ({"a\0b": 1}, ("filter",)),
    ({"\udfff": 1}, ("filter",)),
    ({1: 1}, ("filter",)),
    ({"": 1}, ("filter",)),
    ({"a..b": 1}, ("filter",)),
    ({".a": 1}, ("filter",)),
    ({"a.": 1}, ("filter",)),
    ({"a\\": 1}, ("filter",)),
    ({"$var": 1}, ("filter",)),
    ({"\\$var": 1}, ("filter",)),
    ({"$instants.d": {"exists": True}}, ("filter",)),
    ({"$page.x": 1}, ("filter",)),
    ({"k" * 257: 1}, ("filter",)),
    ({"k": "x" * 4097}, ("filter", "k")),
    ({"k": ["x"] * 1001}, ("filter", "k")),
    ({"a": ["x"] * 1000, "b": ["x"] * 1000, "c": ["x"]}, ("filter", "c")),
    ({"k": ["x" * 4096] * 17}, ("filter", "k", 15)),
    ({"or": [{"k": {"contains": str(number)}} for number in range(17)]}, ("filter", "or", 16, "k", "contains")),
    ({"or": [{"k": {"ends_with": str(number)}} for number in range(17)]}, ("filter", "or", 16, "k", "ends_with")),
    ({"and": [{"k": number} for number in range(200)]}, ("filter", "and", 199)),
    (nested(9), ("filter", *("or", 0) * 8)),
]


@pytest.mark.parametrize(("expression", "loc"), REFUSED, ids=range(len(REFUSED)))
def test_filter_invalid_filter_is_refused(expression: Any, loc: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        compile_filter(expression)
    assert caught.value.loc == loc
    assert json.dumps([caught.value.message, *caught.value.loc], ensure_ascii=False).encode()


def test_filter_too_deep_is_refused_without_recursion_error() -> None:
    expression: dict[str, Any] = {"a": 1}
    operators: dict[str, Any] = {"not": 1}
    for _ in range(100_000):
        expression, operators = {"not": expression}, {"not": operators}
    for hostile in (expression, {"k": operators}):
        with pytest.raises(InvalidInputError, match="levels"):
            compile_filter(hostile)


def test_filter_error_location_begins_as_requested() -> None:
    with pytest.raises(InvalidInputError) as caught:
        compile_filter({"k": {}}, loc=("body", "metadata_filter"))
    assert caught.value.loc == ("body", "metadata_filter", "k")

"""Paths into replies: selected values, and a cost in proportion to the reply."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.http_sources.paths import MAX_PATH_CHARACTERS, InvalidPath, compile_path
from app.http_sources.response import MAX_ITEMS, parse_response
from app.http_sources.types import HttpSource, ResponsePaths, SourceResult
from app.inference.circuit_breaker import EndpointFailed

REPLY = {"hits": {"hits": [{"_source": {"text": "a", "kind": "page"}}, {"_source": {"text": "b", "kind": "file"}}]}}


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("hits.hits[]._source.text", ["a", "b"]),
        ("hits.hits[?_source.kind=='page']._source.text", ["a"]),
        ("hits.hits[-1:]._source.text | [0]", "b"),
        ("hits.*[]._source.text", ["a", "b"]),
        ("nothing || hits.hits[0]._source.kind", "page"),
        ("nothing", None),
    ],
)
def test_compiled_path_selects_values(path: str, chosen: Any) -> None:
    assert compile_path(path).search(REPLY) == chosen


@pytest.mark.parametrize(
    "path",
    [
        "",
        "hits[",
        "a" * (MAX_PATH_CHARACTERS + 1),
        "(" * 99 + "a" + ")" * 99 + "(",
        "||".join(["a"] * 21),
        "!" * 60 + "a",
        # Each of these doubles its input, or expands a reference.
        "[@,@] | [@,@] | [@,@]",
        "{a: @, b: @}",
        "to_string(@)",
        "map(&to_string(@), @)",
        "hits.hits[?contains(text, 'a')]",
        "a[*].[b, c]",
    ],
)
def test_compile_path_expensive_expression_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        compile_path(path)


def source(**paths: str) -> HttpSource:
    named = {"items": "r", "text": "t", "title": "n", "url": "u", "score": "s", **paths}
    return HttpSource("https://search.example.com/en/q", ResponsePaths(**named))


def read(reply: Any, made: HttpSource | None = None, *, most: int = 10) -> list[SourceResult]:
    content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return parse_response(
        content, made or source(), max_results=most, detect_flags=lambda text: ["odd"] if "odd" in text else []
    )


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ({"t": " a \0 text \ud800"}, SourceResult("a   text ?", None, None, None)),
        ({"t": "an odd text"}, SourceResult("an odd text", None, None, None, ["odd"])),
        ({"t": "a", "n": ["no title"], "u": 7, "s": "high"}, SourceResult("a", None, None, None)),
        ({"t": "a", "n": "b", "u": "/page", "s": 2}, SourceResult("a", "b", "https://search.example.com/page", 2.0)),
        ({"t": "a", "u": "page?a=b"}, SourceResult("a", None, "https://search.example.com/en/page?a=b", None)),
        ({"t": "a", "u": "https://other.example/"}, SourceResult("a", None, "https://other.example/", None)),
        ({"t": "a", "u": "javascript:alert(1)"}, SourceResult("a", None, None, None)),
        ({"t": "a", "u": "javascript://other.example/%0aalert(1)"}, SourceResult("a", None, None, None)),
        ({"t": "a", "u": "data:text/html,a"}, SourceResult("a", None, None, None)),
        ({"t": "a", "u": "https://user:word@other.example/"}, SourceResult("a", None, None, None)),
        ({"t": "a", "u": "https://[oops/"}, SourceResult("a", None, None, None)),
        ({"t": "a", "u": "https://other.example/a b"}, SourceResult("a", None, None, None)),
        ({"t": "a", "s": True}, SourceResult("a", None, None, None)),
        ({"t": "a", "s": 10**400}, SourceResult("a", None, None, None)),
    ],
    ids=str,
)
def test_parse_response_reads_valid_parts_of_item(item: dict[str, Any], found: SourceResult) -> None:
    (read_item,) = read({"r": [item]})
    assert read_item == replace(found, flags=list(found.flags))


def test_parse_response_score_that_is_no_number_is_none() -> None:
    assert [one.score for one in read(b'{"r": [{"t": "a", "s": NaN}, {"t": "b", "s": 1e999}]}')] == [None, None]


def test_parse_response_reads_at_most_max_results() -> None:
    assert [one.text for one in read({"r": [{}, {"t": "a"}, "b", {"t": "c"}, {"t": "d"}]}, most=2)] == ["a", "c"]
    with pytest.raises(EndpointFailed, match="no text"):
        read({"r": [{}] * MAX_ITEMS + [{"t": "too late"}]})


@pytest.mark.parametrize("reply", [{}, {"r": None}, {"r": []}, []], ids=str)
def test_parse_response_without_items_is_empty(reply: Any) -> None:
    assert read(reply) == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 5000, "is not JSON"),
        ({"r": {"t": "a"}}, "no list"),
        ({"r": [{"x": 1}]}, "no text"),
        ({"r": [[0] * 10_001]}, "too many values"),
    ],
    ids=["empty", "not text", "deep", "long number", "no list", "no text", "many"],
)
def test_parse_response_malformed_reply_is_failure(reply: Any, reason: str) -> None:
    with pytest.raises(EndpointFailed, match=reason):
        read(reply)


@pytest.mark.parametrize("path", ["r[::0]", "r[?t<'x']"])
def test_parse_response_path_without_match_is_failure(path: str) -> None:
    with pytest.raises(EndpointFailed, match="does not match the configured paths"):
        read({"r": [{"t": 1}]}, source(items=path))

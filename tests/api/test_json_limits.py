"""Limits of JSON bodies: values are counted outside of strings, in any slicing, and before parsing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.api.http.json_limits import CHUNKS_JSON_LIMIT, DEFAULT_JSON_LIMIT, JsonLimit, JsonValueCounter
from app.errors import TooLargeError
from harness.running_service import Tenant
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
BODIES: list[tuple[Any, int, int]] = [
    ({}, 0, 1),
    ([], 0, 1),
    ([1, 2, 3], 2, 1),
    ({"a": 1, "b": [True, None]}, 2, 4),
    ([[], [], {}], 2, 4),
    ({"text": "a, b: [c] {d}"}, 0, 2),
    ({'a "quoted", name': 'said "a, b"'}, 0, 2),
    ({"path\\": "c:\\", "b": ","}, 1, 3),
    (["\\\"", "\\\\", "\"\\,"], 2, 1),
    ("é, ж, 🦦, \n,", 0, 0),
]  # fmt: skip


def taken(body: bytes, limit: JsonLimit, *, size: int) -> bool:
    count = JsonValueCounter(limit)
    try:
        for start in range(0, len(body), size):
            count.update(body[start : start + size])
            count.update(b"")
    except TooLargeError:
        return False
    return True


@pytest.mark.parametrize("plain", [True, False], ids=["utf-8", "escaped"])
@pytest.mark.parametrize(("value", "commas", "names"), BODIES)
def test_json_limit_counts_values_outside_of_strings(value: Any, commas: int, names: int, *, plain: bool) -> None:
    body = json.dumps(value, ensure_ascii=not plain).encode()
    for size in range(1, len(body) + 1):
        assert taken(body, JsonLimit(commas + 1, names), size=size), size
        assert not taken(body, JsonLimit(commas, names), size=size), size
        assert not taken(body, JsonLimit(commas + 1, names - 1), size=size), size


def nested(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


def named(count: int) -> bytes:
    return b"{" + b",".join(b'"%d":0' % number for number in range(count)) + b"}"


TOO_MUCH = {
    "values": b'{"query":"a","filter":{"a":' + nested(b"1", DEFAULT_JSON_LIMIT.max_values) + b"}}",
    "lists": b'{"query":"a","filter":{"a":' + nested(b"[]", DEFAULT_JSON_LIMIT.max_names) + b"}}",
    "names": b'{"query":"a","strategy_options":' + named(DEFAULT_JSON_LIMIT.max_names) + b"}",
    "messages": b'{"messages":' + nested(b'{"role":"user","content":"a"}', DEFAULT_JSON_LIMIT.max_names) + b"}",
    "deep": b"[" * (DEFAULT_JSON_LIMIT.max_names + 1),
}
ROUTES = ["/v1/search", "/v1/agent-search", "/v1/knowledge-bases", "/mcp", "/v1/preview"]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("name", TOO_MUCH)
def test_json_body_above_value_limit_is_413_unparsed(tenant: Tenant, name: str, path: str) -> None:
    reply = tenant.admin.post(path, content=TOO_MUCH[name], headers={"content-type": "application/json"})
    assert str(DEFAULT_JSON_LIMIT) in assert_problem(reply, 413, "too_large")["detail"]


def test_chunked_json_body_above_value_limit_is_413(tenant: Tenant) -> None:
    """The limit applies to a body without a content length, too."""

    def pieces() -> Iterator[bytes]:
        yield from (TOO_MUCH["lists"][start : start + 50_000] for start in range(0, len(TOO_MUCH["lists"]), 50_000))

    reply = tenant.admin.post("/v1/search", content=pieces(), headers={"content-type": "application/json"})
    assert_problem(reply, 413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"a","metadata":' + named(CHUNKS_JSON_LIMIT.max_names) + b"}",
        b'{"chunks":[{"text":"a","vector":' + nested(b"1", CHUNKS_JSON_LIMIT.max_values) + b"}]}",
    ],
    ids=["names", "values"],
)
def test_provided_chunks_have_higher_json_limit(tenant: Tenant, body: bytes) -> None:
    reply = tenant.admin.post(DOCUMENTS, content=body, headers={"content-type": "application/json"})
    assert str(CHUNKS_JSON_LIMIT) in assert_problem(reply, 413, "too_large")["detail"]


def test_json_limit_errors_have_format_of_each_api(tenant: Tenant) -> None:
    for path, said in (
        ("/dify/retrieval", lambda body: (body["error_code"], body["error_msg"])),
        ("/openai/v1/vector_stores", lambda body: (413, body["error"]["message"])),
    ):
        reply = tenant.admin.post(path, content=TOO_MUCH["lists"], headers={"content-type": "application/json"})
        code, message = said(reply.json())
        assert (reply.status_code, code) == (413, 413)
        assert str(DEFAULT_JSON_LIMIT) in message


def test_json_limit_ignores_commas_in_text(tenant: Tenant) -> None:
    """Commas in a text are no values: in a conversation, a document and a preview."""
    text = "a, b: [c], {d}; " * 20_000
    asked = {"messages": [{"role": "user", "content": text[:30_000]}] * 5}
    assert tenant.admin.post("/v1/agent-search", json=asked).status_code == 200
    assert tenant.admin.post(DOCUMENTS, json={"text": text}).status_code == 202
    assert tenant.admin.post("/v1/preview", json={"text": text}).status_code == 200


def test_largest_useful_json_bodies_are_accepted(tenant: Tenant) -> None:
    vectors = [{"vector": [0.25] * 4000}] * 16
    reply = tenant.admin.post("/v1/search", json={"queries": vectors})
    assert "dimensions" in assert_problem(reply, 422, "invalid")["detail"]
    messages = [{"role": "user", "content": "a"}] * 10_000
    assert tenant.admin.post("/v1/agent-search", json={"messages": messages}).status_code == 200


def test_strategy_options_with_many_names_are_422(tenant: Tenant) -> None:
    reply = tenant.admin.post("/v1/search", json={"query": "a", "strategy_options": {str(n): 0 for n in range(101)}})
    (fault,) = assert_problem(reply, 422, "invalid")["errors"]
    assert fault["loc"] == ["body", "strategy_options"]

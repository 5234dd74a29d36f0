"""Conventions of all routes: problems, request ids, invalid ids and names, and bodies that contradict their type."""

import json
import time

import httpx2
import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

# Deep enough to exhaust a stack, and small enough to stay under the limit of body size.
DEEP = "[" * 40_000 + "]" * 40_000
DEEP_OBJECT = '{"a":' * 40_000 + "1" + "}" * 40_000
SEARCH = "/v1/knowledge-bases/default/search"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def admin(service: Service) -> httpx2.Client:
    return service.create_tenant("conventions").admin


@pytest.mark.capability("api-problems")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/../etc/passwd", 404),
        ("GET", "/v1/knowledge-bases/default/nothing", 404),
        ("PUT", "/v1/tenants", 405),
        ("DELETE", "/v1/me", 405),
        ("HEAD", "/v1/me", 405),
        ("OPTIONS", "/v1/me", 405),
        ("TRACE", "/v1/me", 405),
        ("GET", "/v1/search", 405),
    ],
)
def test_unknown_paths_and_methods_are_problems(admin: httpx2.Client, method: str, path: str, status: int) -> None:
    reply = admin.request(method, path)
    if method == "HEAD":
        assert (reply.status_code, reply.headers["content-type"]) == (status, "application/problem+json")
    else:
        assert_problem(reply, status)
    assert status != 405 or reply.headers["allow"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer carrel_" + "0" * 38},
        {"Authorization": "Bearer " + "x" * 20_000},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/me"), ("POST", "/v1/search"), ("POST", DOCUMENTS), ("DELETE", "/v1/tenants/x")]
)
def test_request_without_valid_key_is_401_only(
    service: Service, headers: dict[str, str | bytes], method: str, path: str
) -> None:
    request = service.create_client().build_request(
        method, path, content=b"{ not json", headers={"Content-Type": "application/json"}
    )
    for name, value in headers.items():
        request.headers[name] = value if isinstance(value, str) else value.decode("latin-1")
    assert_problem(service.create_client().send(request), 401, "unauthorized")


@pytest.mark.capability("api-request-id")
@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-1.2_3", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False), ('"<', False)],
)
def test_valid_request_id_is_echoed(admin: httpx2.Client, given: str, kept: bool) -> None:
    for path in ("/v1/me", "/v1/nothing", "/healthz"):
        reply = admin.get(path, headers={"X-Request-Id": given})
        assert (reply.headers["x-request-id"] == given) is kept
        assert kept or reply.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    "text",
    [
        "%00",
        "%FF%FE",
        "%C3%28",
        "a%00b",
        "%2e%2e",
        "%",
        "%zz",
        "doc_%00",
        "kb_" + "z" * 26,
        "'%20or%201=1",
        "x" * 5000,
        "%F0%9F%92%A9",
        "%ED%A0%80",
    ],
)
@pytest.mark.parametrize(
    "template",
    [
        "/v1/knowledge-bases/{}",
        "/v1/knowledge-bases/{}/documents",
        "/v1/knowledge-bases/default/documents/{}",
        "/v1/knowledge-bases/default/documents/{}/content",
        "/v1/knowledge-bases/default/documents/{}/chunks",
        "/v1/knowledge-bases/default/documents/{}/tree",
    ],
)
def test_invalid_ids_in_paths_are_404(admin: httpx2.Client, template: str, text: str) -> None:
    assert_problem(admin.get(template.format(text)), 404)


@pytest.mark.parametrize("text", ["%00", "%FF", "x" * 3000])
@pytest.mark.parametrize(
    ("method", "template"),
    [
        ("PATCH", "/v1/knowledge-bases/{}"),
        ("DELETE", "/v1/knowledge-bases/{}"),
        ("POST", "/v1/knowledge-bases/{}/search"),
        ("POST", "/v1/knowledge-bases/{}/agent-search"),
        ("POST", "/v1/knowledge-bases/{}/documents"),
        ("PATCH", "/v1/knowledge-bases/default/documents/{}"),
        ("DELETE", "/v1/knowledge-bases/default/documents/{}"),
        ("DELETE", "/v1/api-keys/{}"),
    ],
)
def test_invalid_ids_in_writes_are_404(admin: httpx2.Client, method: str, template: str, text: str) -> None:
    body = {"messages": [{"role": "user", "content": "x"}]}
    fitting = {"agent-search": body, "search": {"query": "x"}, "documents": {"text": "x"}}
    assert_problem(
        admin.request(method, template.format(text), json=fitting.get(template.rpartition("/")[2], {"title": "x"})), 404
    )


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=201", "limit=abc", "limit=1e1", "limit=" + "9" * 5000, "limit=%00", "limit=",
        "cursor=%00", "cursor=abc", "cursor=bnVsbA==", "cursor=W10=", "cursor=WzEsMl0=", "cursor=%C3%A9",
        "cursor=" + "A" * 600,
        # ["2024-01-01T00:00:00+00:00", 5], ["x", "y"], a time before the year 1 in UTC, {"a": 1}, [null, null]
        "cursor=WyIyMDI0LTAxLTAxVDAwOjAwOjAwKzAwOjAwIiwgNV0=", "cursor=WyJ4IiwgInkiXQ==",
        "cursor=WyIwMDAxLTAxLTAxVDAwOjAwOjAwKzE0OjAwIiwgIjAxODkwYTVkLWFjOTYtNzc0Yi1iY2NlLWIzMDIwOTlhODA1NyJd",
        "cursor=eyJhIjogMX0=", "cursor=W251bGwsIG51bGxd",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/knowledge-bases", DOCUMENTS, "/v1/api-keys", "/v1/tenants"])
def test_invalid_list_cursors_and_limits_are_422(service: Service, admin: httpx2.Client, path: str, query: str) -> None:
    caller = service.operator if path == "/v1/tenants" else admin
    assert_problem(caller.get(f"{path}?{query}"), 422, "invalid")


@pytest.mark.parametrize(
    "query",
    [
        "status=done", "external_id=%00", "external_id=" + "x" * 513, "user_id=%00", "user_id=" + "x" * 257,
        "agent_id=a", "user_id=u&agent_id=a", "filter=%00", "filter=[]", "filter={", 'filter={"a":{"~":1}}',
        "filter=" + "[" * 20_000, 'filter={"a":"%5Cud800"}', 'filter={"a":1e999}', 'filter={"a":NaN}',
        'filter={"%5Cud800":1}',
        "filter=" + '{"a":' * 5000 + "1" + "}" * 5000, 'filter={"a":' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_invalid_document_list_filters_are_422(admin: httpx2.Client, query: str) -> None:
    assert_problem(admin.get(f"{DOCUMENTS}?{query}"), 422)


BODIES = {
    "not JSON": b"{",
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a string": b'"x"',
    "deep lists": DEEP.encode(),
    "deep objects": DEEP_OBJECT.encode(),
    "invalid UTF-8": b'{"query": "\xff\xfe"}',
    "a surrogate as a name": b'{"\\ud800": 1}',
    "an endless number": b'{"query": "x", "top_k": ' + b"9" * 10_000 + b"}",
    "not a number": b'{"query": "x", "score_threshold": NaN}',
    "infinite": b'{"query": "x", "timeout_seconds": Infinity}',
    "an unknown field": b'{"query": "x", "name": "n", "text": "t", "explain": true}',
    "a long unknown field": b'{"' + b"x" * 100_000 + b'": 1}',
    "a deep field": b'{"query": "x", "text": "x", "name": "x", "filter": ' + DEEP_OBJECT.encode() + b"}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("path", [SEARCH, "/v1/search", DOCUMENTS, "/v1/knowledge-bases", "/v1/api-keys"])
def test_invalid_json_bodies_are_422(admin: httpx2.Client, path: str, body: bytes) -> None:
    reply = admin.post(path, content=body, headers={"Content-Type": "application/json"})
    assert_problem(reply, 422, "invalid")
    assert len(reply.content) < 20_000


@pytest.mark.parametrize(
    "change",
    [
        {"filter": {"a": {"unknown": 1}}}, {"filter": {"$unknown": 1}}, {"filter": {"a": "\ud800"}},
        {"filter": {"\ud800": 1}}, {"filter": {"a": 10**400}}, {"filter": []}, {"filter": {"a": {}}},
        {"query": "\ud800"}, {"query": "a\0b"}, {"query": ""}, {"query": " \n"},
        {"query": "x" * 32_001}, {"query": 5},
        {"queries": []}, {"queries": ["x"] * 17}, {"queries": [""]}, {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [{"role": "user"}]}, {"messages": [{"role": "user", "content": "\0"}]}, {"messages": {}},
        {"top_k": 0}, {"top_k": 501}, {"top_k": -1}, {"top_k": 1.5}, {"top_k": "many"}, {"top_k": 10**30},
        {"score_threshold": 1.1}, {"timeout_seconds": 0}, {"timeout_seconds": 61}, {"timeout_seconds": -1},
        {"strategy": "guess"}, {"strategy": "\0"}, {"strategy_options": {"\ud800": 1}},
        {"strategy_options": {"dense_weight": "x"}},
        {"strategy_options": []}, {"scope": {"agent_id": "a"}}, {"scope": {"user_id": ""}},
        {"scope": {"user_id": "\0"}},
        {"scope": {"tenant_id": "x"}}, {"scope": None}, {"rerank": "much"}, {"expand": "wide"},
        {"transformers": ["guess"]}, {"transformers": "hyde"}, {"transformers": ["\0"]}, {"transformers": ["hyde"] * 9},
        {"transformers": [{"name": "hyde", "options": []}]}, {"transformers": [{"name": "hyde", "more": 1}]},
        {"transformers": [{"name": "hyde", "options": {"\ud800": 1}}]},
    ],
    ids=lambda change: ascii(change)[:60],
)  # fmt: skip
def test_invalid_searches_are_422(admin: httpx2.Client, change: dict[str, object]) -> None:
    body = json.dumps({"query": "words", **change})
    assert_problem(admin.post(SEARCH, content=body, headers={"Content-Type": "application/json"}), 422)


@pytest.mark.capability("api-unknown-names")
def test_unknown_name_error_lists_valid_names(admin: httpx2.Client) -> None:
    known = {"strategy": ("dense", "lexical", "hybrid"), "transformers": ("reformulate", "hyde")}
    for field, value in (("strategy", "guess"), ("transformers", ["guess"])):
        found = assert_problem(admin.post(SEARCH, json={"query": "x", field: value}), 422)
        assert all(name in found["detail"] for name in known[field])
    found = assert_problem(
        admin.post("/v1/knowledge-bases", json={"name": "x", "chunking": {"strategy": "guess"}}), 422
    )
    assert "headered" in found["detail"]
    assert found["errors"][0]["loc"] == ["body", "chunking", "strategy"]


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/xml", "multipart/form-data", "application/x-www-form-urlencoded", "nonsense", ""],
)
def test_body_of_other_media_type_is_422(admin: httpx2.Client, kind: str) -> None:
    assert_problem(admin.post(SEARCH, content=b'{"query": "x"}', headers={"Content-Type": kind}), 422)


def test_json_body_above_limit_is_413(admin: httpx2.Client) -> None:
    large = b'{"query": "' + b"x" * 17_000_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    assert_problem(admin.post(SEARCH, content=large, headers=headers), 413, "too_large")
    assert_problem(
        admin.post(
            SEARCH, content=(large[start : start + 65_536] for start in range(0, len(large), 65_536)), headers=headers
        ),
        413,
        "too_large",
    )
    assert_problem(admin.post(DOCUMENTS, content=large, headers=headers), 413, "too_large")


def test_health_endpoints_report_ok(service: Service) -> None:
    assert service.create_client().get("/healthz").json()["status"] == "ok"
    end = time.monotonic() + 30
    while (ready := service.create_client().get("/readyz").json())["status"] != "ok":
        assert time.monotonic() < end, ready
    assert ready == {"status": "ok", "checks": {"database": "ok", "object_store": "ok", "worker": "ok"}}


@pytest.mark.capability("format-listed")
def test_capabilities_equal_registries_and_limits(service: Service, tenant: Tenant) -> None:
    found = tenant.create_client("reader").get("/v1/capabilities").json()
    assert "application/pdf" in {parser["media_type"] for parser in found["parsers"]}
    assert all(extension.startswith(".") for parser in found["parsers"] for extension in parser["extensions"])
    for kind in ("chunkers", "strategies"):
        assert sum(one["default"] for one in found[kind]) == 1
        assert all(one["description"] for one in found[kind])
    assert {"dense", "lexical", "hybrid"} <= {strategy["name"] for strategy in found["strategies"]}
    assert found["limits"]["upload_bytes"] == service.settings.server.max_upload_bytes

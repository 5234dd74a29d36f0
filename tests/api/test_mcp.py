"""MCP API: the official client in a separate process."""

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from app.retrieval.plan import QUERY_TRUNCATED
from harness.running_service import Service, Tenant
from tests.api.breakable_service import BreakableService
from tests.api.problems import assert_problem
from tests.fixtures.mcp import McpClient, McpRefused, mcp_client

LEAVE = "# Leave\n\nEmployees have thirty days of parental leave.\n"
DOCUMENTS = "/v1/knowledge-bases/default/documents"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(scope="module")
def process() -> Iterator[McpClient]:
    with mcp_client() as client:
        yield client


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    """A tenant with a described knowledge base, and two documents."""
    tenant = service.create_tenant("library")
    kb = {"name": "handbook", "title": "The handbook", "description": "Leave, pay\nand travel."}
    tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
    told = {"title": "Leave", "source_uri": "https://example.com/leave", "metadata": {"year": 2024}}
    tenant.add_text(LEAVE, kb="handbook", **told)
    tenant.add_text("Travel is paid for by the company.", kb="handbook", metadata={"year": 2020})
    return tenant


@pytest.fixture(scope="module")
def client(process: McpClient, library: Tenant) -> McpClient:
    return process.of(library)


def ids(client: McpClient, query: str) -> list[str]:
    return [one["id"] for one in client.call("search", query=query)["results"]]


@pytest.mark.capability("mcp-kbs")
@MODES
def test_mcp_tools_describe_knowledge_bases(process: McpClient, library: Tenant, mode: str) -> None:
    tools = {tool["name"]: tool for tool in process.of(library, mode=mode).ask("list_tools")["tools"]}
    assert set(tools) == {"search", "fetch", "search_knowledge", "list_knowledge_bases"}
    for name, argument in (("search", "query"), ("fetch", "id")):
        assert set(tools[name]["inputSchema"]["properties"]) == {argument}
        assert tools[name]["inputSchema"]["required"] == [argument]
    told = tools["search_knowledge"]["description"]
    assert "- handbook (2 documents): The handbook. Leave, pay and travel." in told
    assert "- default (0 documents)" in told
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools.values())


@pytest.mark.capability("mcp-search")
@MODES
def test_mcp_search_and_fetch_return_results(process: McpClient, library: Tenant, mode: str) -> None:
    client = process.of(library, mode=mode)
    found = client.call("search", query="parental leave")["results"]
    assert [set(one) for one in found] == [{"id", "title", "url"}] * 2
    assert (found[0]["title"], found[0]["url"]) == ("Leave", "https://example.com/leave")
    fetched = client.call("fetch", id=found[0]["id"])
    assert set(fetched) == {"id", "title", "text", "url", "metadata"}
    assert {name: fetched[name] for name in ("id", "title", "url")} == found[0]
    assert "thirty days of parental leave" in fetched["text"]
    assert fetched["metadata"]["year"] == 2024
    assert fetched["metadata"]["knowledge_base"] == "handbook"
    assert fetched["metadata"]["truncated"] is False
    assert found[1]["url"] == f"carrel://documents/{found[1]['id']}"


def test_mcp_search_passages_applies_filter(client: McpClient) -> None:
    asked = {"query": "leave", "knowledge_bases": ["handbook"]}
    (found,) = client.call("search_knowledge", **asked, filter={"year": {"gte": 2024}})["results"]
    assert "parental leave" in found["text"]
    assert (found["knowledge_base"], found["document"]["title"], found["citation"]) == ("handbook", "Leave", "Leave")
    assert len(client.call("search_knowledge", **asked)["results"]) == 2
    assert len(client.call("search_knowledge", **asked, top_k=1)["results"]) == 1
    long = client.call("search_knowledge", query="leave " * 2000, knowledge_bases=["handbook"])
    assert long["warnings"] == [QUERY_TRUNCATED.to_json()]


def test_mcp_search_in_another_language_warns_of_the_english_model(client: McpClient) -> None:
    found = client.call("search_knowledge", query="Wie lange ist der Urlaub der Eltern?", knowledge_bases=["handbook"])
    assert [warning["code"] for warning in found["warnings"]] == ["language_not_supported"]


def test_mcp_lists_knowledge_bases(client: McpClient) -> None:
    found = client.call("list_knowledge_bases")
    told = {one["name"]: (one["title"], one["documents"], one["chunks"]) for one in found["knowledge_bases"]}
    assert told == {"handbook": ("The handbook", 2, 2), "default": (None, 0, 0)}
    assert found["next_cursor"] is None


@pytest.mark.capability("mcp-resources")
@MODES
def test_mcp_documents_are_resources(process: McpClient, library: Tenant, mode: str) -> None:
    client = process.of(library, mode=mode)
    listed = client.ask("list_resources")
    assert [one["title"] for one in listed["resources"]] == ["text", "Leave"]
    assert "nextCursor" not in listed
    uri = listed["resources"][1]["uri"]
    (read,) = client.ask("read_resource", uri)["contents"]
    assert (read["uri"], read["mimeType"]) == (uri, "text/plain")
    assert "thirty days" in read["text"]
    templates = client.ask("list_resource_templates")["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "carrel://documents/{document}"
    (part,) = client.ask("read_resource", f"{uri}/from/{len('Leave')}")["contents"]
    assert part["text"] == read["text"][5:]


def test_mcp_long_document_is_read_in_parts(process: McpClient, service: Service) -> None:
    tenant = service.create_tenant("long")
    texts = [f"Part {number}. " + f"{number} " * 5000 for number in range(12)]
    # every text has its vector, so nothing is embedded
    chunks = [{"text": text.strip(), "vector": [1.0] * 384} for text in texts]
    made = tenant.admin.post(DOCUMENTS, params={"wait": 60}, json={"chunks": chunks})
    assert made.json()["status"] == "ready"
    client = process.of(tenant)
    (resource,) = client.ask("list_resources")["resources"]
    (first,) = client.ask("read_resource", resource["uri"])["contents"]
    (second,) = client.ask("read_resource", first["_meta"]["carrel/next"])["contents"]
    assert len(first["text"]) == 100_000
    assert all(chunk["text"] in first["text"] + second["text"] for chunk in chunks)
    assert "_meta" not in second
    fetched = client.call("fetch", id=resource["uri"].rpartition("/")[2])
    assert fetched["text"] == first["text"]
    assert fetched["metadata"]["truncated"] is True


def test_mcp_resources_are_paged(process: McpClient, service: Service) -> None:
    tenant = service.create_tenant("many")
    files = [("file", (f"{number}.txt", f"Text {number}.".encode())) for number in range(51)]
    made = tenant.admin.post("/v1/knowledge-bases/default/documents/batch", files=files)
    names = {one["document"]["id"] for one in made.json()["items"]}
    for name in names:
        tenant.admin.get(
            f"/v1/knowledge-bases/default/documents/{name}/events", headers={"Accept": "text/event-stream"}
        )
    client = process.of(tenant)
    first = client.ask("list_resources")
    second = client.ask("list_resources", cursor=first["nextCursor"])
    pages = [[one["uri"].rpartition("/")[2] for one in page["resources"]] for page in (first, second)]
    assert [len(page) for page in pages] == [50, 1]
    assert set(pages[0] + pages[1]) == names
    assert "nextCursor" not in second
    with pytest.raises(McpRefused, match="cursor") as caught:
        client.ask("list_resources", cursor="nonsense")
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "words"),
    [
        ("search", {}, "invalid", "query: Field required"),
        ("search", {"query": "x", "top_k": 3}, "invalid", "top_k"),
        ("search", {"query": "  "}, "invalid", "query"),
        ("search", {"query": "a\0b"}, "invalid", "U+0000"),
        ("fetch", {"id": "doc_00000000000000000000000000"}, "document_not_found", "The document does not exist"),
        ("fetch", {"id": "nonsense"}, "document_not_found", "The document does not exist"),
        ("search_knowledge", {"query": "x", "knowledge_bases": ["no"]}, "knowledge_base_not_found", "knowledge base"),
        ("search_knowledge", {"query": "x", "filter": {"k": {"like": 1}}}, "invalid", "Unknown operator"),
        ("search_knowledge", {"query": "x", "top_k": 51}, "invalid", "top_k"),
        ("list_knowledge_bases", {"cursor": "nonsense"}, "invalid", "cursor"),
    ],
)
def test_mcp_tool_error_has_code_and_message(
    client: McpClient, tool: str, arguments: Any, code: str, words: str
) -> None:
    text, facts = client.refused(tool, **arguments)
    assert facts["code"] == code
    assert words in text
    assert text.endswith(f"({code})")


def test_mcp_unsupported_method_is_protocol_error(client: McpClient) -> None:
    with pytest.raises(McpRefused, match="does not exist") as caught:
        client.ask("call_tool", "delete_everything", {})
    assert caught.value.code == -32602
    for uri in (
        "carrel://documents/nothing",
        "carrel://documents/doc_00000000000000000000000000",
        "file:///etc/passwd",
    ):
        with pytest.raises(McpRefused, match="document does not exist") as caught:
            client.ask("read_resource", uri)
        assert (caught.value.code, caught.value.data) == (-32602, {"code": "document_not_found"})
    with pytest.raises(McpRefused) as caught:
        client.ask("list_prompts")
    assert caught.value.code == -32601


@pytest.mark.capability("isolation-mcp")
def test_mcp_tenant_finds_only_its_documents(process: McpClient, library: Tenant, service: Service) -> None:
    (theirs, _), other = ids(process.of(library), "parental leave"), service.create_tenant("other")
    other.add_text("Something else entirely about leave.")
    client = process.of(other)
    (mine,) = ids(client, "parental leave")
    assert mine != theirs
    unknown = f"{theirs[:-1]}{'0' if theirs[-1] != '0' else '1'}"
    assert client.refused("fetch", id=theirs) == client.refused("fetch", id=unknown)
    errors = []
    for name in (theirs, unknown):
        with pytest.raises(McpRefused) as caught:
            client.ask("read_resource", f"carrel://documents/{name}")
        errors.append((caught.value.code, caught.value.message, caught.value.data))
    assert errors[0] == errors[1]
    assert [one["uri"] for one in client.ask("list_resources")["resources"]] == [f"carrel://documents/{mine}"]
    assert "handbook" not in json.dumps(client.ask("list_tools"))


def test_mcp_restricted_key_sees_only_its_knowledge_bases(process: McpClient, library: Tenant) -> None:
    made = library.admin.post("/v1/api-keys", json={"name": "k", "role": "reader", "knowledge_bases": ["default"]})
    client = process.of(library, made.json()["key"])
    (theirs, _) = ids(process.of(library), "parental leave")
    assert ids(client, "parental leave") == []
    assert client.refused("fetch", id=theirs) == client.refused("fetch", id="doc_00000000000000000000000000")
    assert client.refused("search_knowledge", query="x", knowledge_bases=["handbook"])[1] == {
        "code": "knowledge_base_not_found"
    }
    assert [one["name"] for one in client.call("list_knowledge_bases")["knowledge_bases"]] == ["default"]
    assert client.ask("list_resources")["resources"] == []
    assert "handbook" not in json.dumps(client.ask("list_tools"))


def test_mcp_user_key_finds_own_and_tenant_documents(process: McpClient, service: Service) -> None:
    tenant = service.create_tenant("users")
    for user in ("ada", "bob"):
        tenant.add_text(f"The diary of {user}.", user_id=user, title=user)
    tenant.add_text("The diary of everybody.", title="all")
    made = tenant.admin.post("/v1/api-keys", json={"name": "k", "role": "reader", "user_id": "ada"})
    whole, client = process.of(tenant), process.of(tenant, made.json()["key"])
    titles = {one["title"] for one in client.call("search", query="the diary")["results"]}
    assert titles == {"ada", "all"}
    assert {one["title"] for one in client.ask("list_resources")["resources"]} == titles
    assert {one["title"] for one in whole.call("search", query="the diary")["results"]} == {"all"}
    assert {one["title"] for one in whole.ask("list_resources")["resources"]} == {"all"}


def test_mcp_shared_documents_are_found_and_fetched(process: McpClient, service: Service) -> None:
    tenant = service.create_tenant("sharing")
    name = f"shared-{tenant.id[-8:]}"
    for admin in (service.operator, tenant.admin):
        admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
    path = f"/v1/knowledge-bases/{name}/documents"
    service.operator.post(path, params={"wait": 60}, json={"text": "What everybody may read.", "title": "Shared"})
    client = process.of(tenant)
    (found,) = client.call("search", query="what everybody may read")["results"]
    fetched = client.call("fetch", id=found["id"])
    assert (fetched["text"], fetched["metadata"]["knowledge_base"]) == ("What everybody may read.", name)
    stranger = process.of(service.create_tenant("stranger"))
    assert stranger.refused("fetch", id=found["id"])[1]["code"] == "document_not_found"


def test_mcp_only_searches_return_timings(process: McpClient, library: Tenant) -> None:
    client = process.of(library)
    for tool in ("search", "search_knowledge"):
        timings = client.ask("call_tool", tool, {"query": "leave"})["_meta"]["carrel/timings_ms"]
        assert {"total", "embed", "retrieve", "read"} <= timings.keys()
        assert all(spent >= 0 for spent in timings.values())
    assert "carrel/timings_ms" not in (client.ask("call_tool", "list_knowledge_bases", {}).get("_meta") or {})


def test_mcp_searches_are_rate_limited_and_counted(process: McpClient, service: Service) -> None:
    tenant = service.create_tenant("slow")
    quotas = {"quotas": {"searches_per_second": 0.01}}
    service.operator.patch(f"/v1/tenants/{tenant.id}", json=quotas).raise_for_status()
    client = process.of(tenant)
    assert client.call("search", query="leave") == {"results": []}
    _, facts = client.refused("search_knowledge", query="leave")
    assert facts["code"] == "rate_limited"
    assert facts["retry_after"] > 0
    assert tenant.admin.get("/v1/usage").json()["items"][0]["searches"] == 1


def test_mcp_request_without_key_is_401(service: Service) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic abc"}):
        reply = service.create_client().post("/mcp", content=b"{ nonsense", headers=headers)
        assert_problem(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"


def test_mcp_reply_has_service_headers(library: Tenant) -> None:
    reply = library.admin.post("/mcp", json=LIST, headers={"X-Request-Id": "mine"})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.headers["x-request-id"] == "mine"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "mcp-session-id" not in reply.headers
    for method in ("GET", "DELETE"):
        reply = library.admin.request(method, "/mcp")
        assert_problem(reply, 405, "method_not_allowed")
        assert reply.headers["allow"] == "POST"


def test_mcp_request_of_other_origin_is_403(library: Tenant) -> None:
    for origin in ("https://evil.example", library.service.url, "null"):
        assert_problem(library.admin.post("/mcp", json=LIST, headers={"Origin": origin}), 403, "origin_not_allowed")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"x" * (1024 * 1024 + 1), "application/json", 413),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', "application/json", 202),
    ],
)
@pytest.mark.parametrize("version", [None, "2025-06-18", "2026-07-28", "1999-01-01"])
def test_mcp_invalid_messages_are_refused(
    library: Tenant, content: bytes, kind: str, status: int, version: str | None
) -> None:
    headers = {"Content-Type": kind} | ({"MCP-Protocol-Version": version} if version else {})
    reply = library.admin.post("/mcp", content=content, headers=headers)
    assert reply.status_code == (400 if version == "1999-01-01" and status == 202 else status)
    assert "Traceback" not in reply.text


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-03-26"])
def test_mcp_batch_has_reply_to_each_request(library: Tenant, version: str | None) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    batch: list[Any] = [
        LIST,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {"name": "list_knowledge_bases"}},
        {"jsonrpc": "2.0", "id": 3, "method": "nothing/known"},
        {"jsonrpc": "2.0", "id": 4},
        INITIALIZE,
        17,
    ]
    reply = library.admin.post("/mcp", json=batch, headers=headers)
    assert reply.status_code == 200
    answers = reply.json()
    assert [answer["id"] for answer in answers] == [1, "two", 3, 4, 0, None]
    assert len(answers[0]["result"]["tools"]) == 4
    assert "default" in answers[1]["result"]["content"][0]["text"]
    assert [answer["error"]["code"] for answer in answers[2:]] == [-32601, -32600, -32600, -32600]


def test_mcp_batch_of_notifications_is_accepted(library: Tenant) -> None:
    reply = library.admin.post("/mcp", json=[{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2)
    assert (reply.status_code, reply.content) == (202, b"")


@pytest.mark.parametrize(("version", "count"), [("2025-06-18", 1), ("2026-07-28", 2), (None, 0), (None, 51)])
def test_mcp_batch_is_refused_by_later_versions_and_above_limit(
    library: Tenant, version: str | None, count: int
) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    reply = library.admin.post("/mcp", json=[LIST] * count, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, -32600)


def test_mcp_version_with_batches_is_agreed(library: Tenant) -> None:
    reply = library.admin.post("/mcp", json=INITIALIZE).raise_for_status().json()
    assert reply["result"]["protocolVersion"] == "2025-03-26"


@pytest.mark.parametrize("version", [None, "2025-06-18"])
@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list"])
def test_mcp_unknown_cursor_is_invalid_params(library: Tenant, method: str, version: str | None) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    for cursor in ("zzz", "", "1"):
        body = {**LIST, "method": method, "params": {"cursor": cursor}}
        assert library.admin.post("/mcp", json=body, headers=headers).json()["error"]["code"] == -32602, cursor


@pytest.mark.parametrize(
    "message",
    [
        [1, 2],
        "text",
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 5}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 5}},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": []}},
    ],
)
@pytest.mark.parametrize("version", [None, "2025-06-18", "2026-07-28"])
def test_mcp_error_quotes_no_library(library: Tenant, message: Any, version: str | None) -> None:
    headers = {"MCP-Protocol-Version": version} if version else {}
    reply = library.admin.post("/mcp", json=message, headers=headers)
    assert "error" in (reply.json()[0] if isinstance(reply.json(), list) else reply.json())
    assert "pydantic" not in reply.text
    assert "validation error" not in reply.text.lower()


def test_mcp_disconnect_cancels_search(fragile: BreakableService, caplog: pytest.LogCaptureFixture) -> None:
    """The connection is closed during the query's embedding; otherwise the search would succeed."""
    tenant = fragile.service.create_tenant("gone")
    tenant.add_text("A text.")
    body = {**LIST, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "unheard of"}}}
    content = json.dumps(body).encode()
    request = f"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
    request += f"Accept: */*\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    place = httpx2.URL(fragile.service.url)
    with caplog.at_level(logging.INFO):
        assert tenant.admin.post("/mcp", json=LIST).status_code == 200
        wait_until(lambda: answered(caplog) == [200])
    with caplog.at_level(logging.INFO), fragile.held():
        with socket.create_connection((place.host, place.port or 0), timeout=30) as connection:
            connection.sendall(request.encode() + content)
            wait_until(lambda: any("unheard of" in received.inputs for received in fragile.embedding.received))
        wait_until(lambda: len(answered(caplog)) == 2)
    assert answered(caplog) == [200, 499]


def answered(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the statuses of MCP requests in the access log."""
    told = [record.__dict__.get("event_fields", {}) for record in caplog.records if record.getMessage() == "request"]
    return [fields["status"] for fields in told if fields["route"] == "/mcp"]


def wait_until(done: Callable[[], bool]) -> None:
    """Wait for a condition, at most 30 seconds."""
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)

"""The examples of the tutorial agent.md with a service, a chat endpoint, and servers that break the contract."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from docs.examples import agentic_retrieval, static_retrieval
from docs.examples.agentic_retrieval import Knowledge, Source
from docs.examples.static_retrieval import SearchFailed, search, with_passages
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.http_server import ProtocolServer
from harness.running_service import Service, Tenant

HANDBOOK = Path(__file__).parents[2] / "samples" / "handbook.pdf"
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "agent.md"
QUESTION = "Until when can one-way rentals be cancelled?"
PASSAGE = "72 hours before pickup"


@pytest.fixture(scope="module")
def rental(service: Service) -> Tenant:
    """Tenant with a handbook and an agent whose binding searches it."""
    tenant = service.create_tenant("rental")
    assert tenant.upload(HANDBOOK)["status"] == "ready"
    binding = {"knowledge_bases": ["default"], "citations": "prefix", "session_scope": True}
    tenant.admin.put("/v1/agents/agt_xyz789", json=binding).raise_for_status()
    return tenant


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def client(chat: ChatServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=chat.base_url, api_key="none", max_retries=0) as made:
        yield made


def at(tenant: Tenant) -> dict[str, Any]:
    """Return the address, key, agent and session of the example's searches."""
    return {
        "url": f"{tenant.service.url}/v1/agent-search",
        "key": tenant.key,
        "agent_id": "agt_xyz789",
        "session_id": "sess_abc123",
    }


def test_passages_enter_one_turn_and_not_the_history(rental: Tenant, chat: ChatServer, client: OpenAI) -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "system", "content": "You rent out cars."}]
    for number, question in enumerate((QUESTION, "And what does it cost?")):
        static_retrieval.turn(client, "m", history, question, top_k=2, **at(rental))
        roles = [one["role"] for one in chat.text_requests[number].messages]
        assert roles == ["system", *["user", "assistant"] * number, "system", "user"]
    read = " ".join(chat.text_requests[0].messages[-2]["content"].split())
    assert PASSAGE in read
    assert "[handbook.pdf, p. 3]" in read
    assert read.count("---") == 1
    assert [one["role"] for one in history] == ["system", *["user", "assistant"] * 2]
    assert PASSAGE not in json.dumps(history)


def test_with_passages_without_passages_returns_equal_history() -> None:
    history: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    assert with_passages(history, []) == history


def test_turn_with_failing_search_is_answered_without_passages(
    tenant: Tenant, chat: ChatServer, client: OpenAI
) -> None:
    history: list[ChatCompletionMessageParam] = []
    answer = static_retrieval.turn(client, "m", history, QUESTION, **{**at(tenant), "key": "wrong"})
    assert answer == f"You said: {QUESTION}"
    assert [one["role"] for one in chat.text_requests[0].messages] == ["user"]


def wants(**arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "search_knowledge", "arguments": json.dumps(arguments)}
    return [{"id": "call_1", "type": "function", "function": function}]


def asks_once(talk: ReceivedTextRequest) -> list[dict[str, Any]]:
    """Call the tool once, and answer after its result."""
    return [] if talk.messages[-1]["role"] == "tool" else wants(query=QUESTION, top_k=1)


def test_agentic_turn_calls_tool_and_returns_sources(rental: Tenant, chat: ChatServer, client: OpenAI) -> None:
    chat.tool_calls, chat.reply = asks_once, lambda _: "Until 72 hours before."
    history: list[ChatCompletionMessageParam] = []
    answer, sources = agentic_retrieval.turn(client, "m", history, "And one-way?", Knowledge(rental.admin))
    document = rental.admin.get("/v1/knowledge-bases/default/documents").json()["items"][0]["id"]
    assert (answer, sources) == ("Until 72 hours before.", [Source("handbook.pdf, p. 3", document, 3)])
    (told,) = json.loads(chat.text_requests[1].last_message)
    assert PASSAGE in " ".join(told["text"].split())
    assert [(one["role"], one.get("content")) for one in history] == [("user", "And one-way?"), ("assistant", answer)]


def test_agentic_turn_dissimilar_passages_are_left_out(rental: Tenant, chat: ChatServer, client: OpenAI) -> None:
    chat.tool_calls = asks_once
    strict = Knowledge(rental.admin, score_threshold=0.99)
    _, sources = agentic_retrieval.turn(client, "m", [], "And one-way?", strict)
    assert (sources, chat.text_requests[1].last_message) == ([], "[]")


@pytest.mark.parametrize(
    "calls",
    [
        wants(question=QUESTION),
        [{"id": "1", "type": "function", "function": {"name": "search_knowledge", "arguments": "no JSON"}}],
        [{"id": "1", "type": "function", "function": {"name": "delete_all", "arguments": "{}"}}],
    ],
    ids=["no query", "no JSON", "another tool"],
)
def test_agentic_turn_invalid_tool_call_gets_no_results(
    rental: Tenant, chat: ChatServer, client: OpenAI, calls: list[dict[str, Any]]
) -> None:
    chat.tool_calls = lambda _: calls
    answer, sources = agentic_retrieval.turn(client, "m", [], "And one-way?", Knowledge(rental.admin))
    assert (answer, sources, len(chat.text_requests)) == ("", [], agentic_retrieval.MOST_CALLS + 1)
    assert chat.text_requests[-1].body["tool_choice"] == "none"


def test_manifest_of_page_is_enough_for_a_caller(rental: Tenant) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    manifest = yaml.safe_load(block)
    assert manifest["type"] == "external"
    assert manifest["timeout_seconds"] == static_retrieval.SECONDS
    assert manifest["hostname"] == "https://carrel.example.com"
    url = rental.service.url + manifest["path"]
    said = [
        {"role": "customer", "content": "What's your cancellation policy?"},
        {"role": "agent", "content": "Free cancellation up to 24 hours before pickup."},
        {"role": "customer", "content": "And for one-way rentals?"},
    ]
    found = search(url, rental.key, said, agent_id="agt_xyz789", session_id="sess_abc123", top_k=manifest["top_k"])
    assert 0 < len(found) <= manifest["top_k"]
    assert PASSAGE in " ".join(found[0].split())
    assert search(url, rental.service.create_tenant().key, said) == []


class Broken(BaseHTTPRequestHandler):
    """Handler whose path names the broken reply: its status and its body."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, _, body = self.path.strip("/").partition("/")
        self.send_response(int(status))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass
class BrokenReplyServer(ProtocolServer):
    """Server of broken replies."""

    def create_http_server(self) -> ThreadingHTTPServer:
        return ThreadingHTTPServer(("127.0.0.1", 0), Broken)


def test_search_reply_without_array_of_texts_raises() -> None:
    with BrokenReplyServer() as broken:
        assert search(f"{broken.address}/200/[]", "key", []) == []
        for path in (
            '200/{"results":[]}',
            "200/null",
            "200/[1]",
            '200/"text"',
            "200/",
            "200/<html>",
            "503/[]",
            "401/[]",
        ):
            with pytest.raises(SearchFailed):
                search(f"{broken.address}/{path}", "key", [])
    with pytest.raises(SearchFailed):
        search(f"{broken.address}/200/[]", "key", [])


def test_search_with_wrong_key_raises(tenant: Tenant) -> None:
    with pytest.raises(SearchFailed, match="401"):
        search(f"{tenant.service.url}/v1/agent-search", "wrong", [])

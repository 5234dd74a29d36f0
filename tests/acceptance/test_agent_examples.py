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
from carrel_client import Client, Knowledge
from carrel_client.knowledge_types import ChatMessage
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from docs.examples import static_retrieval
from docs.examples.knowledge_agent import MAX_TOOL_TURNS, AgentAnswer, Source, run_turn
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


@pytest.mark.capability("python-example")
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


@pytest.fixture
def carrel(rental: Tenant) -> Iterator[Client]:
    with Client(rental.service.url, rental.key) as made:
        yield made


def wants(**arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "search_knowledge", "arguments": json.dumps(arguments)}
    return [{"id": "call_1", "type": "function", "function": function}]


def asks_once(talk: ReceivedTextRequest) -> list[dict[str, Any]]:
    """Call the tool once, and answer after its result."""
    return [] if talk.messages[-1]["role"] == "tool" else wants(query=QUESTION, top_k=1)


@pytest.mark.capability("python-agentic")
def test_agentic_turn_calls_tool_and_returns_sources(
    rental: Tenant, carrel: Client, chat: ChatServer, client: OpenAI
) -> None:
    chat.tool_calls, chat.reply = asks_once, lambda _: "Until 72 hours before."
    history: list[ChatMessage] = []
    answer = run_turn(client, "m", history, "And one-way?", Knowledge(carrel, mode="agentic"))
    document = rental.admin.get("/v1/knowledge-bases/default/documents").json()["items"][0]["id"]
    assert answer == AgentAnswer("Until 72 hours before.", [Source("handbook.pdf, p. 3", document, 3)], [])
    assert PASSAGE in " ".join(chat.text_requests[1].last_message.split())
    assert [(one["role"], one["content"]) for one in history] == [("user", "And one-way?"), ("assistant", answer.text)]


@pytest.mark.capability("python-event")
def test_static_turn_gives_model_passages_and_interface_event(carrel: Client, chat: ChatServer, client: OpenAI) -> None:
    history: list[ChatMessage] = []
    answer = run_turn(client, "m", history, QUESTION, Knowledge(carrel, mode="static", top_k=2))
    (request,) = chat.text_requests
    assert [one["role"] for one in request.messages] == ["system", "user"]
    assert "tools" not in request.body
    (event,) = answer.events
    assert event["content"] in request.messages[0]["content"]
    assert event["content"].count("\n\n---\n\n") == 1
    assert answer.sources[0].citation == "handbook.pdf, p. 3"
    assert [one["role"] for one in history] == ["user", "assistant"]


@pytest.mark.capability("python-both")
def test_turn_in_both_modes_has_passages_and_tool(carrel: Client, chat: ChatServer, client: OpenAI) -> None:
    chat.tool_calls = asks_once
    run_turn(client, "m", [], QUESTION, Knowledge(carrel, mode="both"))
    first, second = chat.text_requests
    assert PASSAGE in " ".join(first.messages[0]["content"].split())
    assert first.body["tools"][0]["function"]["name"] == "search_knowledge"
    assert second.messages[-1]["role"] == "tool"


@pytest.mark.capability("python-threshold")
def test_agentic_turn_dissimilar_passages_are_left_out(carrel: Client, chat: ChatServer, client: OpenAI) -> None:
    chat.tool_calls = asks_once
    answer = run_turn(client, "m", [], "And one-way?", Knowledge(carrel, score_threshold=0.99))
    assert answer.sources == []
    assert chat.text_requests[1].last_message.startswith("No passage matches.")


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        (wants(question=QUESTION), "The argument query must be a question."),
        (
            [{"id": "1", "type": "function", "function": {"name": "search_knowledge", "arguments": "no JSON"}}],
            "The arguments are no JSON object.",
        ),
        (
            [{"id": "1", "type": "function", "function": {"name": "delete_all", "arguments": "{}"}}],
            "Unknown tool 'delete_all'.",
        ),
        (
            wants(query=QUESTION, knowledge_bases=["secrets"]),
            "Unknown knowledge bases: secrets. Use some of default.",
        ),
    ],
    ids=["no query", "no JSON", "another tool", "another knowledge base"],
)
def test_agentic_turn_invalid_tool_call_says_what_is_wrong(
    carrel: Client, chat: ChatServer, client: OpenAI, calls: list[dict[str, Any]], problem: str
) -> None:
    chat.tool_calls = lambda _: calls
    answer = run_turn(client, "m", [], "And one-way?", Knowledge(carrel))
    assert (answer.sources, len(chat.text_requests)) == ([], MAX_TOOL_TURNS + 1)
    assert chat.text_requests[1].last_message == problem
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

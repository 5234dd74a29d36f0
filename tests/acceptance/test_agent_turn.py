"""One turn of an agent platform over two knowledge bases in two languages, as docs/explanation/agent-turn.md shows it.

``UPDATE_PAGES=1 pytest tests/acceptance/test_agent_turn.py`` writes the requests and replies of the run into the page.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from docs.examples.static_retrieval import with_passages
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.running_service import Tenant, build_settings, run_service
from tests.docs.output_matching import is_same_text, normalize
from tests.docs.page_blocks import PageBlock, read_blocks

PAGE = Path(__file__).parents[2] / "docs/explanation/agent-turn.md"
UPDATES = os.environ.get("UPDATE_PAGES") == "1"
AGENT = "agt_rental"
TALK = [
    {"role": "customer", "content": "What's your cancellation policy?"},
    {"role": "agent", "content": "Free cancellation up to 24 hours before pickup."},
    {"role": "customer", "content": "And for one-way rentals?"},
]
STANDALONE = "Until when can a one-way rental be cancelled?"
TRANSLATED = "Bis wann kann eine Einwegmiete storniert werden?"
ANSWER = "A one-way rental can be cancelled up to 72 hours before pickup. After that it costs 40 percent of the price."
RULES = (
    "One-way rentals can be cancelled free of charge up to 72 hours before pickup.",
    "A child seat is free and must be ordered when the car is booked.",
)
GERMAN_RULES = (
    "Eine Einwegmiete, die nach dieser Frist storniert wird, kostet 40 Prozent des Mietpreises.",
    "Winterreifen sind von Oktober bis April ohne Aufpreis montiert.",
)


@dataclass
class Transcript:
    """Requests and replies in the order of the page."""

    exchanges: list[str] = field(default_factory=list)

    def send(self, client: httpx2.Client, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """Send a request, and add it with its reply.

        Args:
            client: Client with the caller's key.
            method: HTTP method.
            path: Path and query.
            body: JSON body; None sends none.
            headers: Further headers, with ``_`` for ``-``.

        Returns:
            The reply.
        """
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = client.request(method, path, json=body, headers=shown)
        lines = [f"{method} {path}", *(f"{name}: {value}" for name, value in shown.items())]
        is_json = reply.headers["content-type"].startswith("application/json")
        printed = write_json(omit_nulls(reply.json())) if is_json else reply.text.strip()
        self.exchanges.append(
            "\n".join(
                [
                    *lines,
                    *([write_json(body)] if body else []),
                    "",
                    f"{reply.status_code} {reply.reason_phrase}",
                    printed,
                ]
            )
        )
        return reply

    def add_model_call(self, messages: list[dict[str, str]], reply: str) -> None:
        """Add a request to the chat model with its reply.

        Args:
            messages: Messages that the model received. Instructions of Carrel are shown as ``…``.
            reply: Text of the reply.
        """
        shown = "\n".join(f"{one['role']}: {one['content'] or '…'}" for one in messages)
        self.exchanges.append(f"POST /v1/chat/completions\n{shown}\n\nassistant: {reply}")


def omit_nulls(value: Any) -> Any:
    """Return an object without its members that are null, and any other value unchanged."""
    return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


def write_json(value: Any) -> str:
    """Return JSON with a line for each member of the outermost value."""
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in value.items())
        return "{" + ",\n ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",\n ".join(json.dumps(each, ensure_ascii=False) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def read_material(talk: ReceivedTextRequest) -> dict[str, Any]:
    """Return the JSON that Carrel gave the chat model to work on; {} if the platform sent the request."""
    try:
        material = json.loads(talk.last_message)
    except ValueError:
        return {}
    return material if isinstance(material, dict) else {}


def write_reply(talk: ReceivedTextRequest) -> str:
    material = read_material(talk)
    if "conversation" in material:
        return json.dumps({"query": STANDALONE})
    if "query" in material:
        return json.dumps({"texts": [TRANSLATED]})
    return ANSWER


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with ChatServer(reply=write_reply) as server:
        yield server


@pytest.fixture(scope="module")
def rental(
    chat: ChatServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    """Tenant of a service with local embedding models, and with a chat model that rewrites questions."""
    models = {"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"}
    settings = build_settings(tmp_path_factory.mktemp("turn"), models=models)
    with run_service(settings, make_database()) as running:
        yield running.create_tenant("rental")


@pytest.fixture(scope="module")
def transcript(rental: Tenant, chat: ChatServer) -> list[str]:
    """The exchanges of the whole turn, from the two knowledge bases to the answer."""
    written = Transcript()
    prepare_knowledge_bases(rental.admin, written)
    bound = {"knowledge_bases": ["rules", "regeln"], "session_scope": True, "citations": "prefix"}
    written.send(rental.admin, "PUT", f"/v1/agents/{AGENT}", bound).raise_for_status()
    manifest = written.send(
        rental.admin,
        "GET",
        f"/v1/agents/{AGENT}/external-search?base_url=https://carrel.example.com",
        Accept="application/yaml",
    )
    passages = search_as_platform(rental, yaml.safe_load(manifest.text), written)
    add_rewrites(chat, written)
    answer_as_platform(chat, passages, written)
    return written.exchanges


def prepare_knowledge_bases(admin: httpx2.Client, written: Transcript) -> None:
    german = {
        "name": "regeln",
        "language": "german",
        "embedding": {"model": "multilingual-e5-small"},
        "retrieval": {"transformers": ["translate"]},
    }
    for body in ({"name": "rules", "language": "english"}, german):
        reply = admin.post("/v1/knowledge-bases", json=body)
        assert reply.status_code == 201, reply.text
        written.exchanges.append(f"POST /v1/knowledge-bases\n{write_json(body)}\n\n201 Created")
    for name, texts in (("rules", RULES), ("regeln", GERMAN_RULES)):
        uploads = [{"text": text, "external_id": f"{name}-{number}"} for number, text in enumerate(texts)]
        path = f"/v1/knowledge-bases/{name}/documents?wait=60"
        for upload in uploads:
            reply = admin.post(path, json=upload)
            assert (reply.status_code, reply.json()["status"]) == (201, "ready"), reply.text
        written.exchanges.append("\n".join(f"POST {path}\n{write_json(upload)}\n\n201 Created\n" for upload in uploads))


def search_as_platform(rental: Tenant, manifest: dict[str, Any], written: Transcript) -> list[str]:
    """Send the request of the manifest as the platform does, and return the passages."""
    platform = rental.create_client("reader")
    body = {"agent_id": AGENT, "session_id": "sess_abc123", "top_k": 3, "messages": TALK[-manifest["max_messages"] :]}
    reply = written.send(platform, "POST", manifest["path"], body)
    passages: list[str] = reply.json()
    return passages


def add_rewrites(chat: ChatServer, written: Transcript) -> None:
    """Add the calls of Carrel: the standalone question, and its translation for the German knowledge base."""
    for name in ("conversation", "query"):
        (talk,) = [talk for talk in chat.text_requests if name in read_material(talk)]
        shown = [{**one, "content": one["content"] if one["role"] == "user" else ""} for one in talk.messages]
        written.add_model_call(shown, write_reply(talk))


def answer_as_platform(chat: ChatServer, passages: list[str], written: Transcript) -> None:
    """Let the platform's own model answer with the passages."""
    roles = {"customer": "user", "agent": "assistant"}
    history: Any = [{"role": roles[one["role"]], "content": one["content"]} for one in TALK]
    messages: list[ChatCompletionMessageParam] = with_passages(history, passages)
    with OpenAI(base_url=chat.base_url, api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="talker", messages=messages)
    written.add_model_call(chat.text_requests[-1].messages, reply.choices[0].message.content or "")


@pytest.mark.capability("sources-turn")
def test_platform_turn_finds_passages_in_both_languages(rental: Tenant, transcript: list[str]) -> None:
    (searched,) = [each for each in transcript if each.startswith("POST /v1/agent-search")]
    passages = json.loads(searched.partition("200 OK\n")[2])
    assert {text for text in (RULES[0], GERMAN_RULES[0]) if any(text in each for each in passages)} == {
        RULES[0],
        GERMAN_RULES[0],
    }
    body = {"messages": TALK, "knowledge_bases": ["rules", "regeln"], "explain": True, "timeout_seconds": 30}
    explained = rental.admin.post("/v1/search", json=body).json()["explain"]["knowledge_bases"]
    assert {each["knowledge_base"]: each["queries"] for each in explained} == {
        "rules": [STANDALONE],
        "regeln": [TRANSLATED],
    }


def test_page_shows_requests_and_replies_of_the_turn(transcript: list[str]) -> None:
    blocks = [block for block in read_blocks(PAGE) if block.argument == "tests/acceptance/test_agent_turn.py"]
    assert len(blocks) == len(transcript)
    differing = [
        (block, exchange)
        for block, exchange in zip(blocks, transcript, strict=True)
        if not is_same_text(block.text, exchange)
    ]
    if UPDATES:
        write_page(differing)
    else:
        assert [(block.place, normalize(exchange)) for block, exchange in differing] == []


def write_page(differing: list[tuple[PageBlock, str]]) -> None:
    text = PAGE.read_text("utf-8")
    for block, exchange in reversed(differing):
        text = text[: block.start] + exchange + "\n" + text[block.end :]
    PAGE.write_text(text, "utf-8")

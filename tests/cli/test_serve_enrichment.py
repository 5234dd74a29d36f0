"""An enrichment whose processes are killed: finished calls of the chat model are paid once."""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.consistency import find_inconsistencies
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.section_writer import SectionWriter, measure_tokens
from tests.cli.commands import HANG_SECONDS, Command, descendants, serving, wait_until, wait_until_ended, worker_of
from tests.cli.conftest import embedding_settings

KB = "/v1/knowledge-bases/default"
SENTENCE = "Ada Lovelace wrote a program with Charles Babbage and counted the wheels of the engine. "
LINE = "A line about zeppelins"
SECTIONS = 4
TEXT = "\n\n".join(f"# Part {number}\n\nThis is part {number}. {SENTENCE * 6}" for number in range(SECTIONS))


@dataclass
class HeldWriter:
    """Writer that holds the replies to some requests until the processes of the service are killed.

    Attributes:
        held: Numbers of the requests whose replies are held, counted from 1.
        requests: Material of each request, in the order of arrival.
        released: Set when held replies may be sent, to connections that are closed by then.
    """

    held: frozenset[int]
    requests: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    _writer: SectionWriter = field(default_factory=SectionWriter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, talk: ReceivedTextRequest) -> str:
        """Return the reply to a request.

        Args:
            talk: The request.
        """
        with self._lock:
            self.requests.append(talk.messages[1]["content"])
            is_held = len(self.requests) in self.held
        if is_held:
            self.released.wait(2 * HANG_SECONDS)
        passages = json.loads(talk.messages[1]["content"]).get("passages", [])
        lines = [{"passage": passage["number"], "line": LINE} for passage in passages]
        return json.dumps({**json.loads(self._writer(talk)), "context_lines": lines})


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with ChatServer(measure_tokens=measure_tokens) as server:
        yield server


@pytest.fixture
def settings(endpoint: EmbeddingServer, chat: ChatServer) -> dict[str, str]:
    return {
        **embedding_settings(endpoint),
        "CARREL_CHAT_BASE_URL": chat.base_url,
        "CARREL_CHAT_MODEL": "talker",
        "CARREL_CHAT_TIMEOUT_SECONDS": "300",
    }


def find_state(service: Command) -> dict[str, Any]:
    """Return the state of the enrichment of the only document."""
    with service.client() as client:
        (document,) = client.get(f"{KB}/documents").raise_for_status().json()["items"]
        found = client.get(f"{KB}/documents/{document['id']}").raise_for_status().json()
    assert found["status"] == "ready"
    state: dict[str, Any] = found["enrichment"]
    return state


def assert_lines_are_indexed(service: Command) -> None:
    """Check that a search finds chunks by a word of their line, and returns their text as written."""
    with service.client() as client:
        body = {"query": "zeppelins", "knowledge_bases": ["default"], "strategy": "lexical"}
        results = client.post("/v1/search", json=body).raise_for_status().json()["results"]
    assert results
    assert all("Lovelace" in result["text"] and LINE not in result["text"] for result in results)


def test_serve_enrichment_interrupted_by_kills_pays_each_finished_call_once(
    place: Path, settings: dict[str, str], chat: ChatServer, endpoint: EmbeddingServer
) -> None:
    chat.reply = writer = HeldWriter(frozenset({2, 4}))
    with serving(place, **settings) as first:
        with first.client() as client:
            client.patch(KB, json={"enrichment": {"enabled": True, "context_lines": True}}).raise_for_status()
            body = {"text": TEXT, "media_type": "text/markdown"}
            client.post(f"{KB}/documents", json=body).raise_for_status()
        # The worker is killed during the second call. The service starts another one, which repeats this call alone.
        wait_until(lambda: len(writer.requests) == 2)
        os.kill(worker_of(first.process.pid), signal.SIGKILL)
        wait_until(lambda: len(writer.requests) == 4)
        assert find_state(first)["sections_done"] == 2
        # All processes are killed during the third call, which is the fourth request.
        below = descendants(first.process.pid)
        first.process.kill()
        first.process.wait(HANG_SECONDS)
        wait_until_ended(below)
    writer.released.set()
    with serving(place, **settings) as second:
        # The worker is killed once more while the chunks are embedded with their lines.
        wait_until(lambda: any(LINE in text for request in list(endpoint.received) for text in request.inputs))
        os.kill(worker_of(second.process.pid), signal.SIGKILL)
        wait_until(lambda: find_state(second)["state"] == "done")
        state = find_state(second)
        assert_lines_are_indexed(second)
        url = json.loads((place / ".carrel" / "runtime.json").read_text())["admin_database_url"]
        assert asyncio.run(find_inconsistencies(url)) == {}
        assert second.end() == 0
    counts = Counter(writer.requests)
    in_flight = {writer.requests[1], writer.requests[3]}
    assert len(in_flight) == 2
    assert counts == {material: 2 if material in in_flight else 1 for material in counts}
    # One call a section and one for the document. The calls without a reply are not among the paid ones.
    assert (state["sections"], state["sections_done"], state["calls"]) == (SECTIONS + 1,) * 3
    assert len(writer.requests) == SECTIONS + 1 + len(in_flight)

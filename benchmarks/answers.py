"""``make bench NAME=answers``: measure the first token of an answer beyond retrieval and the bare model.

The model is the tests' protocol server, which thinks for a moment and then writes a word at a time. Bare, it is given
the very request that the service has made of the same question. Both take turns.
"""

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from benchmarks.search import Vocabulary, fill_knowledge_base
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest

WARM_UP, QUESTIONS, THINKING_SECONDS = 20, 200, 0.1
ANSWER_PATH = "/v1/knowledge-bases/bench/answer"
MAX_OVERHEAD_MS = 50.0


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Milliseconds: until the service's first token, its retrieval in that, and until the bare model's."""

    answer: float
    search: float
    bare: float

    @property
    def overhead(self) -> float:
        """What is neither."""
        return self.answer - self.search - self.bare


def write_answer(talk: ReceivedTextRequest) -> str:
    """A few words, and that they are all from the first source."""
    return "It is as the first source says." if talk.body.get("stream") else '{"numbers": [1]}'


def measure_answer(client: httpx2.Client, question: str) -> tuple[float, float]:
    """Milliseconds until the first token, and what retrieval took of them by the service's own clock."""
    started, first, name = time.perf_counter(), 0.0, ""
    with client.stream("POST", ANSWER_PATH, json={"query": question}) as reply:
        reply.raise_for_status()
        for line in reply.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if name == "token" and not first:
                first = (time.perf_counter() - started) * 1000
            if name == "done" and line.startswith("data: "):
                return first, float(json.loads(line.removeprefix("data: "))["timings_ms"]["search"])
    raise RuntimeError(f"the answer ended with {name}")


def measure_bare_model(client: httpx2.Client, body: dict[str, Any]) -> float:
    """Milliseconds until the model's first token."""
    started = time.perf_counter()
    with client.stream("POST", "/chat/completions", json=body) as reply:
        lines = reply.raise_for_status().iter_lines()
        first = next((time.perf_counter() - started) * 1000 for line in lines if _has_content(line))
        for _ in lines:  # so that the connection can be used again
            pass
    return first


def _has_content(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    return any(choice["delta"].get("content") for choice in json.loads(line.removeprefix("data: "))["choices"])


def measure(service: RunningService, chat: ChatServer) -> Iterator[FirstToken]:
    """One figure a question."""
    vocabulary = Vocabulary(1)
    fill_knowledge_base(service, vocabulary)
    with service.create_client() as client, httpx2.Client(base_url=chat.base_url, timeout=60) as direct:
        for number in range(WARM_UP + QUESTIONS):
            chat.reset()
            answer, search = measure_answer(client, vocabulary.generate_query())
            requested = next(talk for talk in chat.text_requests if talk.body.get("stream"))
            figures = FirstToken(answer, search, measure_bare_model(direct, requested.body))
            if number >= WARM_UP:
                yield figures


def main() -> None:
    """Print the medians."""
    exit_on_sigterm()
    with ChatServer(reply=write_answer, delay_seconds=THINKING_SECONDS) as chat, embedding_endpoint() as embedding:
        settings = {"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"}
        with running_service(embedding, settings=settings) as service:
            figures = list(measure(service, chat))
    answer, search, alone, overhead = (
        statistics.median(getattr(item, name) for item in figures) for name in ("answer", "search", "bare", "overhead")
    )
    print(f"first token, median of {len(figures)} questions, the model thinking for {THINKING_SECONDS * 1000:.0f} ms:")
    print(f"  the bare model        {alone:7.1f} ms")
    print(f"  POST /v1/…/answer     {answer:7.1f} ms, {search:.1f} ms of it retrieval")
    print(f"  beyond both           {overhead:7.1f} ms (reach: {MAX_OVERHEAD_MS:.0f})")
    print(f"  without retrieval, over the bare model: {(answer - search) / alone:.2f}x")


if __name__ == "__main__":
    main()

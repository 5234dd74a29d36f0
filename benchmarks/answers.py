"""``make bench NAME=answers``: measure the time that the service adds to the first token of an answer.

The chat model is a protocol server that waits for a moment and then streams one word at a time. For each question the
benchmark measures the service, then sends the request that the service made directly to the same chat server. The
added time is the service's time to the first token, minus its retrieval and minus the time of the chat server.
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
    """Milliseconds until the service's first token, its retrieval part, and until the bare model's first token."""

    answer: float
    search: float
    bare: float

    @property
    def overhead(self) -> float:
        """Milliseconds of the answer that are neither retrieval nor the model."""
        return self.answer - self.search - self.bare


def write_answer(talk: ReceivedTextRequest) -> str:
    """Return the reply of the chat model: an answer if streamed, else a citation of the first source."""
    return "It is as the first source says." if talk.body.get("stream") else '{"numbers": [1]}'


def measure_answer(client: httpx2.Client, question: str) -> tuple[float, float]:
    """Return the milliseconds until the first token, and those of retrieval as the service reports them."""
    started, first, name = time.perf_counter(), 0.0, ""
    with client.stream("POST", ANSWER_PATH, json={"query": question}) as reply:
        reply.raise_for_status()
        for line in reply.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if name == "token" and not first:
                first = (time.perf_counter() - started) * 1000
            if name == "done" and line.startswith("data: "):
                return first, float(json.loads(line.removeprefix("data: "))["timings_ms"]["search"])
    raise RuntimeError(f"the answer stream has no event done; its last event is {name}")


def measure_bare_model(client: httpx2.Client, body: dict[str, Any]) -> float:
    """Send a request directly to the chat server and return the milliseconds until the first token."""
    started = time.perf_counter()
    with client.stream("POST", "/chat/completions", json=body) as reply:
        lines = reply.raise_for_status().iter_lines()
        first = next((time.perf_counter() - started) * 1000 for line in lines if _has_content(line))
        for _ in lines:  # reads to the end, so that the connection can be used again
            pass
    return first


def _has_content(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    return any(choice["delta"].get("content") for choice in json.loads(line.removeprefix("data: "))["choices"])


def measure(service: RunningService, chat: ChatServer) -> Iterator[FirstToken]:
    """Fill a knowledge base and yield the times of each question after the warm-up."""
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
    """Run the benchmark and print the medians."""
    exit_on_sigterm()
    with ChatServer(reply=write_answer, delay_seconds=THINKING_SECONDS) as chat, embedding_endpoint() as embedding:
        settings = {"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"}
        with running_service(embedding, settings=settings) as service:
            figures = list(measure(service, chat))
    answer, search, alone, overhead = (
        statistics.median(getattr(item, name) for item in figures) for name in ("answer", "search", "bare", "overhead")
    )
    print(f"first token, median of {len(figures)} questions, model delay {THINKING_SECONDS * 1000:.0f} ms:")
    print(f"  the bare model        {alone:7.1f} ms")
    print(f"  POST /v1/…/answer     {answer:7.1f} ms, of which retrieval {search:.1f} ms")
    print(f"  added by the service  {overhead:7.1f} ms (target: {MAX_OVERHEAD_MS:.0f})")
    print(f"  without retrieval, over the bare model: {(answer - search) / alone:.2f}x")


if __name__ == "__main__":
    main()

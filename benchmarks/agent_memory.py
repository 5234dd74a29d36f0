"""``make bench NAME=agent-memory``: measure when a search finds the note of an agent.

A note, or what a tool has answered, is POSTed as an agent does it in the middle of a conversation: dynamic, in its
chat, with an expiry. From the 202 on the agent's search is asked again and again until its reply has the text. Last,
what a search of new words takes while agents do nothing but note: notes are embedded beside queries.
"""

import argparse
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx2

from harness.processes import RunningService, exit_on_sigterm, running_service

NOTE_COUNT = 100
MAX_P95_MS = 300
DOCUMENTS = "/v1/knowledge-bases/default/documents"
NOTE_CHARACTERS = {"a note of 200 characters": 200, "a tool's answer of 2,000": 2000}
# So that a search is asked every few milliseconds, and the worker has the machine in between.
POLL_INTERVAL_SECONDS = 0.01
SEARCH_TIMEOUT_SECONDS = 30
AGENT_COUNTS = (0, 1, 4)
WORDS = ("booking", "customer", "van", "station", "pickup", "return", "price", "deposit", "insurance", "mileage")


def build_text(rng: random.Random, marker: str, characters: int) -> str:
    """Sentences about rentals, in which the marker is named once."""
    sentences = [f"The customer of this chat said {marker}."]
    while sum(map(len, sentences)) < characters:
        sentences.append(" ".join(rng.choices(WORDS, k=9)).capitalize() + ".")
    return " ".join(sentences)[:characters]


def remember(client: httpx2.Client, chat: str, text: str, *, wait: int) -> None:
    """As an agent does it."""
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"text": text, "chat_id": chat, "agent_id": "agt", "dynamic": True, "expires_at": expires}
    client.post(DOCUMENTS, params={"wait": wait}, json=body).raise_for_status()


def can_recall(client: httpx2.Client, chat: str, marker: str) -> bool:
    """Whether the agent's search has it."""
    body = {"agent_id": "agt", "session_id": chat, "messages": [{"role": "user", "content": f"Who said {marker}?"}]}
    result: list[str] = client.post("/v1/agent-search", json=body).raise_for_status().json()
    return any(marker in text for text in result)


def measure_until_found(client: httpx2.Client, chat: str, marker: str) -> float:
    """Milliseconds from now to the end of the first search that has it."""
    begun = time.perf_counter()
    while not can_recall(client, chat, marker):
        if time.perf_counter() - begun > SEARCH_TIMEOUT_SECONDS:
            raise RuntimeError("what was noted is not found")
        time.sleep(POLL_INTERVAL_SECONDS)
    return 1000 * (time.perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class NoteFigures:
    """Sorted milliseconds: the POST itself, from its 202 to a search that has it, a POST that waits for that; CPU."""

    post_ms: Sequence[float]
    search_ms: Sequence[float]
    waiting_post_ms: Sequence[float]
    cpu_ms: float

    def format_row(self, name: str) -> str:
        times = [format_percentiles(values) for values in (self.post_ms, self.search_ms, self.waiting_post_ms)]
        return f"| {name} | {' | '.join(times)} | {self.cpu_ms:.0f} |"


def measure(service: RunningService, *, characters: int, number: int) -> NoteFigures:
    """So many of this length, each way."""
    rng = random.Random(characters)
    posts, result, waited = [], [], []
    with service.create_client() as client:
        client.put("/v1/agents/agt", json={"knowledge_bases": ["default"], "session_scope": True}).raise_for_status()
        for turn in range(number):
            marker, chat = f"zq{characters}x{turn}", f"chat {turn % 5}"
            begun = time.perf_counter()
            remember(client, chat, build_text(rng, marker, characters), wait=0)
            posts.append(1000 * (time.perf_counter() - begun))
            result.append(measure_until_found(client, chat, marker))
        before = service.measure_cpu()
        for turn in range(number):
            begun = time.perf_counter()
            remember(client, "waiting", build_text(rng, f"zw{characters}x{turn}", characters), wait=60)
            waited.append(1000 * (time.perf_counter() - begun))
        spent = service.measure_cpu() - before
        if not can_recall(client, "waiting", f"zw{characters}x{number - 1}"):
            raise RuntimeError("what was waited for is not found")
    cpu = 1000 * (spent.carrel + spent.postgres) / number
    return NoteFigures(sorted(posts), sorted(result), sorted(waited), cpu)


@contextmanager
def noting_agents(service: RunningService, agents: int) -> Iterator[None]:
    """So many agents, each of which notes a tool's answer as soon as its last one is searchable."""
    done = threading.Event()

    def add_notes(agent: int) -> None:
        rng, turn = random.Random(agent), 0
        with service.create_client() as client:
            while not done.is_set():
                marker, turn = f"zb{agents}x{agent}x{turn}", turn + 1
                remember(client, f"busy {agent}", build_text(rng, marker, 2000), wait=60)

    with ThreadPoolExecutor(max(agents, 1)) as pool:
        tasks = [pool.submit(add_notes, agent) for agent in range(agents)]
        try:
            yield
        finally:
            done.set()
    for task in tasks:
        task.result()


def measure_searches(service: RunningService, *, agents: int, number: int) -> Sequence[float]:
    """Sorted milliseconds of so many searches in what the tenant has beside its chats, each with words of its own."""
    rng, used = random.Random(agents), []
    with noting_agents(service, agents), service.create_client() as client:
        for turn in range(number):
            query = " ".join([f"zs{agents}x{turn}", *rng.choices(WORDS, k=6)])
            begun = time.perf_counter()
            client.post("/v1/search", json={"query": query, "top_k": 5}).raise_for_status()
            used.append(1000 * (time.perf_counter() - begun))
            time.sleep(POLL_INTERVAL_SECONDS)
    return sorted(used)


def format_percentiles(milliseconds: Sequence[float]) -> str:
    """Median and 95 %."""
    return f"{statistics.median(milliseconds):.0f} / {_compute_p95(milliseconds):.0f}"


def _compute_p95(milliseconds: Sequence[float]) -> float:
    return milliseconds[int(0.95 * len(milliseconds))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=NOTE_COUNT, help="how many of each kind")
    number = parser.parse_args().number
    slow = False
    with running_service(None) as service:
        measure(service, characters=300, number=10)  # warms the parsers and the model
        print(f"p50 / p95 ms, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores:\n")
        print("| | POST until 202 | 202 until a search has it | POST that waits, until 201 | CPU of all, ms a note |")
        print("| --- | --- | --- | --- | --- |")
        for name, characters in NOTE_CHARACTERS.items():
            figures = measure(service, characters=characters, number=number)
            print(figures.format_row(name), flush=True)
            slow = slow or _compute_p95(figures.search_ms) > MAX_P95_MS
        print("\n| a search while agents note | p50 / p95 |\n| --- | --- |")
        for agents in AGENT_COUNTS:
            print(
                f"| {agents} | {format_percentiles(measure_searches(service, agents=agents, number=number))} |",
                flush=True,
            )
    print(f"\nreach: {MAX_P95_MS} ms from the 202, at p95: {'missed' if slow else 'kept'}")
    return int(slow)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())

"""``make prove NAME=deadline``: measure the searches of agents while models, database or sources are slow or broken.

Every case sends two waves of concurrent searches. In the first wave the circuit breakers are closed; in the second wave
the failures of the first can have opened them. The exit code is 1 if the 99th percentile is above 0.9 of the budget. It
is also 1 if a search returns no results although a retriever works.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.processes import exit_on_sigterm
from proofs.deadline_services import BUDGETS_SECONDS, DeadlineServices, build_conversation

CONCURRENCY, WAVES, MAX_BUDGET_SHARE = 40, 2, 0.9
# The pause between the starts of two searches, so that the times do not measure a queue for two cores.
SPACING_SECONDS = 0.1
FaultInjector = Callable[[DeadlineServices, ExitStack], None]


@dataclass(frozen=True, slots=True)
class OutageCase:
    """Outage of one or more dependencies.

    ``can_answer`` is true if a retriever still works. The searches are agent searches of ``agent``, or, with
    ``uses_rerank``, plain searches with the same conversation and reranking.
    """

    name: str
    inject_fault: FaultInjector
    agent: str = "local"
    uses_rerank: bool = False
    can_answer: bool = True


def _inject_nothing(_world: DeadlineServices, _stack: ExitStack) -> None:
    pass


def _delay_chat(seconds: float) -> FaultInjector:
    return lambda services, _: setattr(services.chat, "delay_seconds", seconds)


def _stall_chat(services: DeadlineServices, _stack: ExitStack) -> None:
    services.chat.fail("slow", times=10_000)


def _fail_embedder(how: Any) -> FaultInjector:
    return lambda services, _: services.embedding.fail(how, times=None, seconds=30)


def _fail_reranker(how: Any) -> FaultInjector:
    return lambda services, _: services.reranker.fail(how, times=10_000)


def _fail_site(how: Any) -> FaultInjector:
    return lambda services, _: services.site.fail(how, times=10_000)


def _delay_database(seconds: float) -> FaultInjector:
    return lambda services, _: setattr(services.link, "delay_seconds", seconds)


def _stall_database(services: DeadlineServices, _stack: ExitStack) -> None:
    services.link.stall()


def _lock_table(table: str) -> FaultInjector:
    def lock(services: DeadlineServices, stack: ExitStack) -> None:
        stack.enter_context(services.locked_table(table))

    return lock


def _combine_faults(*all_of_them: FaultInjector) -> FaultInjector:
    def inject_all(services: DeadlineServices, stack: ExitStack) -> None:
        for item in all_of_them:
            item(services, stack)

    return inject_all


CASES = [
    OutageCase("nothing is broken", _inject_nothing),
    OutageCase("chat model in 0.1 s", _delay_chat(0.1)),
    OutageCase("chat model in 1 s", _delay_chat(1.0)),
    OutageCase("chat model in 4 s", _delay_chat(4.0)),
    OutageCase("chat model in 30 s", _delay_chat(30.0)),
    OutageCase("chat model never", _stall_chat),
    OutageCase("embedder down", _fail_embedder("disconnect")),
    OutageCase("embedder in 30 s", _fail_embedder("slow")),
    OutageCase("reranker replies with invalid JSON", _fail_reranker("not_json"), uses_rerank=True),
    OutageCase("reranker never", _fail_reranker("never"), uses_rerank=True),
    OutageCase(
        "chat model and reranker never", _combine_faults(_stall_chat, _fail_reranker("never")), uses_rerank=True
    ),
    OutageCase("database 50 ms an answer", _delay_database(0.05)),
    OutageCase("dense retriever locked", _lock_table("chunk_embedding")),
    OutageCase("lexical retriever locked", _lock_table("chunk_lexical")),
    OutageCase("database stalls", _stall_database, can_answer=False),
    OutageCase("HTTP source never", _fail_site("never"), agent="both"),
    OutageCase(
        "HTTP source never, database stalls",
        _combine_faults(_fail_site("never"), _stall_database),
        agent="both",
        can_answer=False,
    ),
    OutageCase(
        "model, embedder, source never; database slow",
        _combine_faults(_stall_chat, _fail_embedder("slow"), _fail_site("never"), _delay_database(0.02)),
        agent="both",
    ),
]


@dataclass(frozen=True, slots=True)
class TimedSearch:
    """Time, status and warnings of one search."""

    seconds: float
    status: int
    is_empty: bool
    degraded: str
    problem: str


def send_search(client: httpx2.Client, case: OutageCase, budget: float) -> TimedSearch:
    """Send one search as an agent platform does, and time it."""
    if case.uses_rerank:
        path = "/v1/knowledge-bases/default/search"
        body: dict[str, Any] = {"messages": build_conversation(), "rerank": True, "timeout_seconds": budget}
    else:
        path, body = "/v1/agent-search", {"agent_id": f"{case.agent}-{budget:g}", "messages": build_conversation()}
    begun = time.perf_counter()
    reply = client.post(path, json=body)
    seconds = time.perf_counter() - begun
    result = reply.json()
    problem = result.get("type", "").rpartition(":")[2] if isinstance(result, dict) else ""
    result = result.get("results", []) if isinstance(result, dict) else result
    steps = [part for part in reply.headers.get("Server-Timing", "").split(", ") if part.startswith("degraded")]
    degraded = ", ".join(part.partition('"')[2].rstrip('"') for part in steps)
    return TimedSearch(seconds, reply.status_code, not result, degraded, problem)


def send_search_in_turn(place: int, client: httpx2.Client, case: OutageCase, budget: float) -> TimedSearch:
    """Wait for the turn of ``place``, then send one search."""
    time.sleep(place * SPACING_SECONDS)
    return send_search(client, case, budget)


@dataclass(frozen=True, slots=True)
class OutageOutcome:
    """Searches of both waves of one case with one budget."""

    case: OutageCase
    budget: float
    waves: Sequence[Sequence[TimedSearch]]

    @property
    def p99(self) -> float:
        """99th percentile of the seconds of all waves."""
        return compute_quantile([item.seconds for wave in self.waves for item in wave], 0.99)

    @property
    def failure(self) -> str:
        """Description of the broken promises; empty if there are none."""
        every = [item for wave in self.waves for item in wave]
        bad = sum(item.status != 200 or item.is_empty for item in every) if self.case.can_answer else 0
        wrong = sum(item.status not in (200, 503) for item in every)
        kinds = "/".join(sorted({item.problem for item in every if item.problem}))
        late = f"p99 above {MAX_BUDGET_SHARE * self.budget:g} s" if self.p99 > MAX_BUDGET_SHARE * self.budget else ""
        return ", ".join(
            filter(None, [late, f"{bad} without results {kinds}" * bool(bad), f"{wrong} failed" * bool(wrong)])
        )

    def format_row(self) -> str:
        """Format a row of the table."""
        waves = " | ".join(f"{compute_quantile([item.seconds for item in wave], 0.5):.2f}" for wave in self.waves)
        every = [item for wave in self.waves for item in wave]
        reported = dict.fromkeys(item.degraded for item in every if item.degraded)
        answered = sum(item.status == 200 and not item.is_empty for item in every)
        counts = f"{answered}/{len(every)}"
        return f"| {self.case.name} | {self.budget:g} | {waves} | {self.p99:.2f} | {counts} | {'; '.join(reported)} |"


def compute_quantile(values: Sequence[float], share: float) -> float:
    """Return the value at a share of the sorted values, rounded up to the next value."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(services: DeadlineServices, case: OutageCase, budget: float, *, number: int) -> OutageOutcome:
    """Inject the fault of a case and send both waves of ``number`` concurrent searches."""
    with ExitStack() as stack, ThreadPoolExecutor(number) as threads, services.create_client() as client:
        list(threads.map(lambda _: send_search(client, CASES[0], budget), range(number)))  # warms up all caches
        case.inject_fault(services, stack)
        waves = [
            list(threads.map(lambda place: send_search_in_turn(place, client, case, budget), range(number)))
            for _ in range(WAVES)
        ]
    return OutageOutcome(case, budget, waves)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=CONCURRENCY, help="concurrent searches")
    parser.add_argument("--only", default="", help="run only the cases whose names contain this text")
    provided = parser.parse_args()
    missed = []
    with DeadlineServices.open() as services:
        services.fill()
        print(f"{provided.number} concurrent searches, two waves; seconds")
        print("| fault | budget | p50, first wave | p50, second wave | p99 | with results | degraded |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        wanted = [(case, budget) for case in CASES for budget in BUDGETS_SECONDS if provided.only in case.name]
        for case, budget in wanted:
            services.restore()
            outcome = measure(services, case, budget, number=provided.number)
            print(outcome.format_row(), flush=True)
            missed += [f"{case.name}, {budget:g} s: {outcome.failure}"] if outcome.failure else []
    for item in missed:
        print(f"MISSED: {item}")
    print(
        f"p99 within {MAX_BUDGET_SHARE:g} of the budget, and results whenever a retriever works: "
        f"{'missed' if missed else 'kept'}"
    )
    return int(bool(missed))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())

"""``make prove NAME=deadline``: search as agents do while models, database or sources are slow or broken.

In every case two waves of searches side by side: in the first nobody knows yet what is broken, in the second the
circuit breakers may. Exit code 1 where the slowest of a hundred took more than 0.9 of the budget, or an answer was
empty although a lane works.
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

from harness.processes import end_as_usual
from proofs.deadline_services import BUDGETS, DeadlineServices, talk

SIDE_BY_SIDE, WAVES, REACH = 40, 2, 0.9
# Between the beginnings of two searches: what is broken is to be measured, and not what a crowd waits for two cores.
APART_SECONDS = 0.1
Breaking = Callable[[DeadlineServices, ExitStack], None]


@dataclass(frozen=True, slots=True)
class OutageCase:
    """What is broken; ``answers`` where a lane still works. An ``agent`` of these knowledge bases asks, or with
    ``rerank`` a search by the same conversation.
    """

    name: str
    breaks: Breaking
    agent: str = "local"
    rerank: bool = False
    answers: bool = True


def _nothing(_world: DeadlineServices, _stack: ExitStack) -> None:
    pass


def _late(seconds: float) -> Breaking:
    return lambda services, _: setattr(services.chat, "late_seconds", seconds)


def _never(services: DeadlineServices, _stack: ExitStack) -> None:
    services.chat.fail("slow", times=10_000)


def _embedder(how: Any) -> Breaking:
    return lambda services, _: services.embedding.fail(how, times=None, seconds=30)


def _reranker(how: Any) -> Breaking:
    return lambda services, _: services.reranker.fail(how, times=10_000)


def _site(how: Any) -> Breaking:
    return lambda services, _: services.site.fail(how, times=10_000)


def _delayed(seconds: float) -> Breaking:
    return lambda services, _: setattr(services.link, "delay_seconds", seconds)


def _stalled(services: DeadlineServices, _stack: ExitStack) -> None:
    services.link.stall()


def _locked(table: str) -> Breaking:
    def lock(services: DeadlineServices, stack: ExitStack) -> None:
        stack.enter_context(services.locked(table))

    return lock


def _all(*all_of_them: Breaking) -> Breaking:
    def break_all(services: DeadlineServices, stack: ExitStack) -> None:
        for one in all_of_them:
            one(services, stack)

    return break_all


CASES = [
    OutageCase("nothing is broken", _nothing),
    OutageCase("chat model in 0.1 s", _late(0.1)),
    OutageCase("chat model in 1 s", _late(1.0)),
    OutageCase("chat model in 4 s", _late(4.0)),
    OutageCase("chat model in 30 s", _late(30.0)),
    OutageCase("chat model never", _never),
    OutageCase("embedder down", _embedder("disconnect")),
    OutageCase("embedder in 30 s", _embedder("slow")),
    OutageCase("reranker garbage", _reranker("not_json"), rerank=True),
    OutageCase("reranker never", _reranker("never"), rerank=True),
    OutageCase("chat model and reranker never", _all(_never, _reranker("never")), rerank=True),
    OutageCase("database 50 ms an answer", _delayed(0.05)),
    OutageCase("dense lane locked", _locked("chunk_embedding")),
    OutageCase("lexical lane locked", _locked("chunk_lexical")),
    OutageCase("database stalls", _stalled, answers=False),
    OutageCase("HTTP source never", _site("never"), agent="both"),
    OutageCase(
        "HTTP source never, database stalls",
        _all(_site("never"), _stalled),
        agent="both",
        answers=False,
    ),
    OutageCase(
        "model, embedder, source never; database slow",
        _all(_never, _embedder("slow"), _site("never"), _delayed(0.02)),
        agent="both",
    ),
]


@dataclass(frozen=True, slots=True)
class Search:
    """How one search went."""

    seconds: float
    status: int
    empty: bool
    degraded: str
    problem: str


def ask(client: httpx2.Client, case: OutageCase, budget: float) -> Search:
    """As an agent platform does it."""
    if case.rerank:
        path = "/v1/knowledge-bases/default/search"
        body: dict[str, Any] = {"messages": talk(), "rerank": True, "timeout_seconds": budget}
    else:
        path, body = "/v1/agent-search", {"agent_id": f"{case.agent}-{budget:g}", "messages": talk()}
    begun = time.perf_counter()
    reply = client.post(path, json=body)
    seconds = time.perf_counter() - begun
    found = reply.json()
    problem = found.get("type", "").rpartition(":")[2] if isinstance(found, dict) else ""
    found = found.get("results", []) if isinstance(found, dict) else found
    steps = [part for part in reply.headers.get("Server-Timing", "").split(", ") if part.startswith("degraded")]
    degraded = ", ".join(part.partition('"')[2].rstrip('"') for part in steps)
    return Search(seconds, reply.status_code, not found, degraded, problem)


def after(place: int, client: httpx2.Client, case: OutageCase, budget: float) -> Search:
    """A search at its turn."""
    time.sleep(place * APART_SECONDS)
    return ask(client, case, budget)


@dataclass(frozen=True, slots=True)
class OutageOutcome:
    """The waves of one case with one budget."""

    case: OutageCase
    budget: float
    waves: Sequence[Sequence[Search]]

    @property
    def p99(self) -> float:
        """Of all waves."""
        return quantile([one.seconds for wave in self.waves for one in wave], 0.99)

    @property
    def missed(self) -> str:
        """What was promised and not kept; empty where everything was."""
        every = [one for wave in self.waves for one in wave]
        bad = sum(one.status != 200 or one.empty for one in every) if self.case.answers else 0
        wrong = sum(one.status not in (200, 503) for one in every)
        kinds = "/".join(sorted({one.problem for one in every if one.problem}))
        late = f"p99 above {REACH * self.budget:g} s" if self.p99 > REACH * self.budget else ""
        return ", ".join(
            filter(None, [late, f"{bad} without an answer {kinds}" * bool(bad), f"{wrong} failed" * bool(wrong)])
        )

    def row(self) -> str:
        """Of the table."""
        waves = " | ".join(f"{quantile([one.seconds for one in wave], 0.5):.2f}" for wave in self.waves)
        every = [one for wave in self.waves for one in wave]
        told = dict.fromkeys(one.degraded for one in every if one.degraded)
        answered = sum(one.status == 200 and not one.empty for one in every)
        counts = f"{answered}/{len(every)}"
        return f"| {self.case.name} | {self.budget:g} | {waves} | {self.p99:.2f} | {counts} | {'; '.join(told)} |"


def quantile(values: Sequence[float], share: float) -> float:
    """The nearest that is there, from above."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(services: DeadlineServices, case: OutageCase, budget: float, *, number: int) -> OutageOutcome:
    """So many side by side, and once more when the breakers know."""
    with ExitStack() as stack, ThreadPoolExecutor(number) as threads, services.client() as client:
        list(threads.map(lambda _: ask(client, CASES[0], budget), range(number)))  # a full pool, keys, plans
        case.breaks(services, stack)
        waves = [
            list(threads.map(lambda place: after(place, client, case, budget), range(number))) for _ in range(WAVES)
        ]
    return OutageOutcome(case, budget, waves)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=SIDE_BY_SIDE, help="searches side by side")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    given = parser.parse_args()
    missed = []
    with DeadlineServices.open() as services:
        services.fill()
        print(f"{given.number} searches side by side, twice; seconds")
        print("| what is broken | budget | p50, first wave | p50, second wave | p99 | answers | degraded |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        wanted = [(case, budget) for case in CASES for budget in BUDGETS if given.only in case.name]
        for case, budget in wanted:
            services.heal()
            outcome = measure(services, case, budget, number=given.number)
            print(outcome.row(), flush=True)
            missed += [f"{case.name}, {budget:g} s: {outcome.missed}"] if outcome.missed else []
    for one in missed:
        print(f"MISSED: {one}")
    print(f"p99 within {REACH:g} of the budget, and an answer wherever a lane works: {'missed' if missed else 'kept'}")
    return int(bool(missed))


if __name__ == "__main__":
    end_as_usual()
    sys.exit(main())

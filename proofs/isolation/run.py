"""Send ids of other tenants and unknown ids in every id field of every operation, with every kind of API key.

The service is started as a user starts it. Each combination of ``proofs.isolation.grid`` is sent with a foreign and
with an unknown id. The two replies may differ only in the id of the request. Afterwards the objects of the owners must
be unchanged. The proof also prints the times of the replies. A difference in time is reported but is not a failure.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from statistics import median

import httpx2

from app.bootstrap import Resources
from app.embedded_postgres import DatabaseUrls
from app.main import create_app
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service
from harness.protocol_servers.chat import ChatServer
from harness.running_service import Service, build_settings
from proofs.isolation.cases import EndpointCase, list_cases
from proofs.isolation.comparison import build_comparable_reply, send_case
from proofs.isolation.grid import (
    PLAIN_KINDS,
    Grid,
    IdsByForm,
    Trial,
    create_grid,
    generate_trials,
    invent_forms,
    list_hidden_secrets,
    may_learn_existence,
    snapshot_owners,
)
from proofs.isolation.routes import list_endpoints
from proofs.isolation.tenants import Attacker
from proofs.isolation.timing import apply_holm_correction, compute_mann_whitney

MIN_COMBINATIONS = 50_000
THREADS = 3
MIN_SAMPLES = 20
SIGNIFICANCE_LEVEL = 0.01


@dataclass
class GridFindings:
    """Combinations, differences and statuses, and the times with foreign and with unknown ids by operation."""

    combinations: set[tuple[str, ...]] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[str, tuple[list[float], list[float]]] = field(
        default_factory=lambda: defaultdict(_create_sample_pair)
    )

    def add(self, other: "GridFindings") -> None:
        """Add the findings of another thread."""
        self.combinations |= other.combinations
        self.differences += other.differences
        self.statuses += other.statuses
        for name, (foreign, nothing) in other.seconds.items():
            self.seconds[name][0].extend(foreign)
            self.seconds[name][1].extend(nothing)


def _create_sample_pair() -> tuple[list[float], list[float]]:
    return [], []


class _ProcessServiceAdapter(Service):
    """Adapter that presents a service in other processes as the ``Service`` of the tests."""

    @property
    def operator(self) -> httpx2.Client:
        return self.create_client((self.settings.server.data_dir / "operator-key").read_text().strip())


def adapt_service(running: RunningService) -> Service:
    """Wrap a running service as the ``Service`` that the tests use."""
    runtime = json.loads((running.data_dir / "runtime.json").read_text())
    urls = DatabaseUrls(runtime["admin_database_url"], runtime["database_url"])
    resources: Resources = None  # type: ignore[assignment]  # in another process
    return _ProcessServiceAdapter(running.url, build_settings(running.data_dir), urls, resources, None)


def list_all_cases() -> list[EndpointCase]:
    """Return the cases of all operations: first those that change nothing, last those that use a taken name.

    A tenant that has a knowledge base with the name of an operator's one may see the operator's documents in it.
    """

    def refuse_resources() -> AbstractAsyncContextManager[Resources]:
        raise AssertionError("the application must not open resources: only its routes are read")

    result = [case for endpoint in list_endpoints(create_app(refuse_resources).routes) for case in list_cases(endpoint)]
    return sorted(result, key=lambda case: (not case.is_read_only, "taken" in case.fields))


def run_trials(attacker: Attacker, grid: Grid, cases: Sequence[EndpointCase], *, share: float) -> GridFindings:
    """Send the combinations of one attacker, or a random share of them."""
    visited, chosen = GridFindings(), random.Random(attacker.name)
    nothing: dict[str, IdsByForm] = {owner: invent_forms() for owner in grid.owned_ids}
    for trial in generate_trials(cases, grid.owned_ids, attacker):
        if chosen.random() < share:
            _run_trial(trial, attacker, grid.owned_ids[trial.kind.owner], nothing[trial.kind.owner], visited, chosen)
    return visited


def _run_trial(
    trial: Trial,
    attacker: Attacker,
    theirs: IdsByForm,
    nothing: IdsByForm,
    findings: GridFindings,
    chosen: random.Random,
) -> None:
    case, mine = trial.case, attacker.ids["id"]
    sent = [trial.build_ids(mine, theirs[trial.form]), trial.build_ids(mine, nothing[trial.form])]
    outcomes, seconds = {}, [0.0, 0.0]
    for which in chosen.sample((0, 1), 2):
        begun = time.perf_counter()
        reply = send_case(attacker.client, case, sent[which])
        seconds[which] = time.perf_counter() - begun
        outcomes[which] = build_comparable_reply(reply, sent[which])
        findings.statuses[reply.status_code] += 1
        if reply.status_code >= 500 or any(secret in reply.text for secret in list_hidden_secrets(attacker)):
            findings.differences.append(f"{attacker.name}: {trial}: {reply.status_code} {reply.text[:300]}")
    if outcomes[0] != outcomes[1] and not may_learn_existence(trial, attacker):
        findings.differences.append(f"{attacker.name}: {trial}: {outcomes[0]} instead of {outcomes[1]}")
    name, _, role = attacker.name.partition(" ")
    findings.combinations.add((str(case), " ".join(trial.fields), f"{trial.kind.name} {trial.form}", name, role))
    if trial.kind in PLAIN_KINDS:
        for times, spent in zip(findings.seconds[case.endpoint.name], seconds, strict=True):
            times.append(spent * 1000)


def run(running: RunningService, *, share: float) -> tuple[GridFindings, list[str]]:
    """Run all attackers; return the findings and the changed objects of the owners."""
    service, cases, visited = adapt_service(running), list_all_cases(), GridFindings()
    grid = create_grid(service)
    before = snapshot_owners(grid)
    with ThreadPoolExecutor(THREADS) as threads:
        done = threads.map(lambda attacker: run_trials(attacker, grid, cases, share=share), grid.attackers)
        for number, result in enumerate(done, 1):
            visited.add(result)
            print(f"{number} of {len(grid.attackers)} keys, {len(visited.combinations)} combinations", flush=True)
    after = snapshot_owners(grid)
    changed = [f"{path}: {before[path]} is now {after[path]}" for path in before if after[path] != before[path]]
    service.transport.close()
    return visited, changed


def format_timing(findings: GridFindings) -> Iterator[str]:
    """Yield the rows of a table of operations, sorted by the p-value of the difference in time."""
    measured = {name: times for name, times in findings.seconds.items() if min(map(len, times)) >= MIN_SAMPLES}
    corrected = dict(
        zip(measured, apply_holm_correction([compute_mann_whitney(*times) for times in measured.values()]), strict=True)
    )
    yield "| operation | pairs | foreign id, ms | unknown id, ms | difference, ms | p (Mann-Whitney, Holm) |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in sorted(measured, key=lambda name: corrected[name]):
        foreign, nothing = measured[name]
        medians = median(foreign), median(nothing)
        yield (
            f"| {name} | {len(foreign)} | {medians[0]:.2f} | {medians[1]:.2f} | {medians[0] - medians[1]:+.2f} "
            f"| {corrected[name]:.3f} |"
        )
    surely = sum(p < SIGNIFICANCE_LEVEL for p in corrected.values())
    yield f"\n{surely} of {len(measured)} operations differ in time (p < {SIGNIFICANCE_LEVEL}, corrected for their number)"  # noqa: E501


def build_chat_settings(chat: ChatServer) -> dict[str, str]:
    """Return the settings of a chat model, which the answer endpoints need."""
    return {"CARREL_CHAT_BASE_URL": chat.base_url, "CARREL_CHAT_MODEL": "talker"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--share", type=float, default=0.5, help="share of the combinations, chosen at random (default: 0.5)"
    )
    share = parser.parse_args().share
    begun = time.monotonic()
    local = {
        "CARREL_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
        "CARREL_SQL_VIEWS": "true",
    }  # the address of the webhooks in the cases
    with (
        ChatServer(reply=lambda _: "I do not know.") as chat,
        embedding_endpoint() as embedding_url,
        running_service(embedding_url, settings={**local, **build_chat_settings(chat)}) as running,
    ):
        visited, changed = run(running, share=share)
    print("\n".join(format_timing(visited)))
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(visited.statuses.items()))
    print(f"\nreplies by status: {statuses}")
    for difference in [*visited.differences[:20], *changed]:
        print(difference)
    print(
        f"\n{len(visited.combinations)} combinations of operation, place, kind of id, key and role in "
        f"{time.monotonic() - begun:.0f} s (target: {MIN_COMBINATIONS}); {len(visited.differences)} with a difference; "
        f"the objects of the owners are {'CHANGED' if changed else 'unchanged'}"
    )
    enough = share < 1 or len(visited.combinations) >= MIN_COMBINATIONS
    return int(bool(visited.differences) or bool(changed) or not enough)


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())

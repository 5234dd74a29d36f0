"""``make prove NAME=kill``: kill processes with SIGKILL in every stage of ingestion while clients write and search."""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import httpx2

from harness.processes import exit_on_sigterm
from proofs.kill.calls import KB, PatientClient
from proofs.kill.clients import SlotWriter, Tally
from proofs.kill.endpoint import SlowEmbeddingEndpoint
from proofs.kill.final_check import check_after_stop, check_final_state
from proofs.kill.ledger import Ledger, SlotState
from proofs.kill.planter import verify_checker
from proofs.kill.service import OPERATOR_KEY, ServiceProcesses, killable_service
from proofs.kill.stages import STAGES, CaughtProcess, process_in_stage
from proofs.kill.supervisor import supervision
from proofs.kill.watcher import Checker

CLIENTS, SLOTS_PER_CLIENT, CHECKERS = 4, 6, 2
# Of four kills, two hit the process that is in the stage, one its Postgres session and one the postmaster.
KILL_TARGETS = ("process", "session", "process", "postmaster")
Histogram = Counter[tuple[str, str]]


def plan_kills(kills: int, rng: random.Random) -> list[tuple[str, str]]:
    """Return the stage and target of each kill in random order. Every stage occurs equally often."""
    of_a_stage = -(-kills // len(STAGES))
    cards = [(stage, KILL_TARGETS[number % len(KILL_TARGETS)]) for stage in STAGES for number in range(of_a_stage)]
    rng.shuffle(cards)
    return cards


async def kill(service: ServiceProcesses, caught: CaughtProcess, target: str) -> str | None:
    """Kill the target with SIGKILL and restart it. Return the name of the target, or None if there was none."""
    if target == "postmaster":
        service.kill_postgres()
        return "Postgres"
    if target == "session":
        session = caught.session or await _find_session(service)
        if session is None:
            return None
        os.kill(session, signal.SIGKILL)  # the postmaster then ends all other sessions and runs recovery
        return "Postgres session"
    name = service.find_name(caught.pid) or ""
    service.kill_part(caught.pid)
    return name.split()[0]


async def _find_session(service: ServiceProcesses) -> int | None:
    connection = await asyncpg.connect(service.superuser_url, timeout=5)
    try:
        sql = "select pid from pg_stat_activity where application_name = 'carrel' order by random() limit 1"
        result: int | None = await connection.fetchval(sql)
        return result
    finally:
        connection.terminate()


async def run_kills(
    service: ServiceProcesses, endpoint: SlowEmbeddingEndpoint, tally: Tally, *, kills: int, seed: int, until: float
) -> Histogram:
    """Run all planned kills until ``until``. A stage that no process reaches is tried again later."""
    rng, histogram = random.Random(seed), Histogram()
    cards = plan_kills(kills, rng)
    while cards and time.monotonic() < until:
        stage, target = cards.pop(0)
        try:
            async with process_in_stage(stage, service, endpoint, rng) as caught:
                what = None if caught is None else await kill(service, caught, target)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            what = None  # Postgres is still recovering
        if what is None:
            cards.append((stage, target))
            tally.count(f"missed {stage}")
            await asyncio.sleep(0.2)
            continue
        histogram[stage, what] += 1
        if histogram.total() % 10 == 0:
            print(f"{histogram.total()} kills, {tally.counts['checks']} checks, {len(tally.faults)} faults", flush=True)
        await asyncio.sleep(rng.uniform(0.0, 0.5))
    return histogram


def prepare(service: ServiceProcesses) -> PatientClient:
    """Create a tenant and a knowledge base with small chunks; return a client for them."""
    operator = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    created = httpx2.post(f"{service.api_urls[0]}/v1/tenants", json={"name": "kill test"}, headers=operator, timeout=30)
    calls = PatientClient(service.api_urls, created.raise_for_status().json()["api_key"]["key"])
    chunking = {"max_tokens": 64, "overlap_tokens": 0}
    reply = calls.try_request("POST", "/v1/knowledge-bases", json={"name": KB, "chunking": chunking})
    assert reply is not None
    reply.raise_for_status()
    return calls


def show(histogram: Histogram, tally: Tally, calls: PatientClient, seconds: float) -> None:
    """Print the table of kills, the counts of the clients and the repeated requests."""
    targets = ("API", "worker", "Postgres", "Postgres session")
    print("\n| stage | " + " | ".join(targets) + " | all |\n|" + " --- |" * (len(targets) + 2))
    for stage in STAGES:
        row = [histogram[stage, target] for target in targets]
        print(f"| {stage} | " + " | ".join(map(str, row)) + f" | {sum(row)} |")
    print(f"\n{histogram.total()} kills in {seconds / 60:.1f} min")
    for what, count in sorted(tally.counts.items()):
        print(f"  {what}: {count}")
    print(f"  repeated requests by cause: {dict(calls.retry_counts)}")


async def run(arguments: argparse.Namespace, folder: Path) -> int:
    begun, tally = time.monotonic(), Tally()
    slots = range(CLIENTS * SLOTS_PER_CLIENT)
    ledger = Ledger({slot: SlotState() for slot in slots})
    with SlowEmbeddingEndpoint() as endpoint, killable_service(folder, endpoint.base_url) as service:
        calls = prepare(service)
        await verify_checker(calls, service.urls.owner, (901, 902, 903))
        stopping, ended = threading.Event(), threading.Event()
        clients = [
            SlotWriter(slots[number::CLIENTS], calls=calls, ledger=ledger, tally=tally, seed=seed, stop=stopping)
            for number, seed in enumerate(range(arguments.seed, arguments.seed + CLIENTS))
        ]
        checkers = [
            Checker(slots, calls=calls, ledger=ledger, tally=tally, seed=seed, stop=ended) for seed in range(CHECKERS)
        ]
        for thread in [*clients, *checkers]:
            thread.start()
        until = begun + 60 * arguments.minutes
        async with supervision(service.revive, tally):
            histogram = await run_kills(
                service, endpoint, tally, kills=arguments.kills, seed=arguments.seed, until=until
            )
            stopping.set()
            await asyncio.to_thread(_join, clients)
            await check_final_state(service, calls, ledger, tally)
            ended.set()
            await asyncio.to_thread(_join, checkers)
        service.stop()
        check_after_stop(service, tally)
    show(histogram, tally, calls, time.monotonic() - begun)
    if histogram.total() < arguments.kills:
        tally.record_fault(f"only {histogram.total()} of {arguments.kills} kills in {arguments.minutes} minutes")
    for wrong in tally.faults:
        print(f"FAULT {wrong}")  # repeated at the end, because readers of a long log look there
    print(f"{len(tally.faults)} faults")
    return int(bool(tally.faults))


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=204, help="number of kills (default: 204); 12 is a quick run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="maximum duration in minutes (default: 30)")
    parser.add_argument("--keep", type=Path, help="empty folder for data and logs, which are not deleted")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        return asyncio.run(run(arguments, arguments.keep))
    with tempfile.TemporaryDirectory(prefix="carrel-kill-") as folder:
        Path(folder).chmod(0o711)  # under root, Postgres runs as another user, who must be able to enter this directory
        return asyncio.run(run(arguments, Path(folder)))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())

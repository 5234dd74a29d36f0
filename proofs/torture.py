"""``make prove NAME=torture``: upload the torture set and 3,000 hostile files to a running service.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The service has its default limits and receives all files
over HTTP. During the uploads, a neighbour tenant uploads a small text every second. A listening socket counts
connections of parsers that follow a link in a file.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import asyncpg
import httpx2

from app.ids import decode_id
from app.settings import ParserSettings, WorkerSettings
from harness.hostile import HostileFile, iter_sample_files
from harness.hostile.archives import generate_zip_bombs
from harness.hostile.false_types import generate_false_types, generate_hostile_names
from harness.hostile.images import generate_hostile_images
from harness.hostile.links import generate_linking_files
from harness.hostile.listener import link_listener
from harness.hostile.mutations import generate_mutations
from harness.hostile.observers import (
    NeighbourUpload,
    ProcessWatch,
    count_ended_jobs,
    list_living_workers,
    upload_small_texts,
)
from harness.hostile.pdfs import generate_false_pdfs, generate_pdf_bombs, generate_pdf_loops
from harness.hostile.texts import generate_hostile_texts
from harness.hostile.uploads import HostileFileOutcome, SentFile, collect_outcomes, save_files, send_files
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service
from proofs.fairness import small_tenant
from proofs.torture_set import run_set

MUTATIONS, QUICK_MUTATIONS = 2_000, 200
MIN_PARSED_SHARE = 0.5
"""Minimum share of the mutated files that the type detection must accept, so that a parser reads them."""

QUIET_TIMEOUT_SECONDS = 600
MAX_SOURCE_BYTES = 200_000
_COUNT_WAITING_SQL = "select count(*) from job where tenant_id = $1 and kind = 'ingest_document' and state <> 'dead'"


@dataclass(frozen=True, slots=True)
class AttackReport:
    """Observations of one run: outcomes, the neighbour's uploads, memory and worker processes."""

    outcomes: list[HostileFileOutcome]
    neighbour_uploads: list[NeighbourUpload]
    ended_jobs: list[int]
    watch: ProcessWatch
    seconds: float
    living_worker_count: int


def generate_hostile_files(url: str, torture: Path, *, count: int, seed: int) -> Iterator[HostileFile]:
    """Generate all hostile files. Links in the files lead to ``url``."""
    sources = list(iter_sample_files())
    sources += [(path.name, path.read_bytes()) for path in sorted(torture.iterdir()) if path.suffix != ".json"]
    mutable = [(name, data) for name, data in sources if len(data) <= MAX_SOURCE_BYTES]
    return chain(
        generate_linking_files(url), generate_hostile_names(), generate_zip_bombs(), generate_pdf_bombs(),
        generate_pdf_loops(), generate_false_pdfs(), generate_hostile_images(),
        generate_hostile_texts(), generate_false_types(), generate_mutations(mutable, count=count, seed=seed),
    )  # fmt: skip


async def wait_until_settled(owner: asyncpg.Connection, tenant: object) -> None:
    """Wait until no document of the tenant waits, or until there is no progress for 600 s."""
    before, moved = -1, time.monotonic()
    while left := await owner.fetchval(_COUNT_WAITING_SQL, tenant):
        if left != before:
            before, moved = left, time.monotonic()
        if time.monotonic() - moved > QUIET_TIMEOUT_SECONDS:
            return
        await asyncio.sleep(0.5)


async def run_attack(service: RunningService, client: httpx2.Client, files: Iterator[HostileFile]) -> AttackReport:
    """Upload all files while the neighbour uploads too, and wait until all files are processed."""
    started, watch, attacking = time.monotonic(), ProcessWatch(), True
    runtime = json.loads((service.data_dir / "runtime.json").read_text())
    owner, other = [await asyncpg.connect(runtime["admin_database_url"]) for _ in range(2)]
    tenant = decode_id("ten", client.get("/v1/me").json()["tenant"]["id"])
    with small_tenant(service) as (neighbour_id, neighbour):
        looking = asyncio.create_task(watch.run(service))
        visiting = asyncio.create_task(
            upload_small_texts(other, neighbour, decode_id("ten", neighbour_id), wanted=lambda: attacking)
        )
        try:
            sent: list[SentFile] = await asyncio.to_thread(send_files, client, files)
            print(f"{len(sent)} files sent in {time.monotonic() - started:.0f} s", flush=True)
            await wait_until_settled(owner, tenant)
            attacking = False
            visits = await visiting
        finally:
            looking.cancel()
            visiting.cancel()
            await owner.close()
            await other.close()
    seconds = time.monotonic() - started
    ended = count_ended_jobs(service.data_dir.parent / "serve.log", tenant, visits)
    alive = len(watch.worker_pids & list_living_workers(service))
    return AttackReport(await asyncio.to_thread(collect_outcomes, client, sent), visits, ended, watch, seconds, alive)


def show_outcomes(result: Sequence[HostileFileOutcome]) -> None:
    """Print the number of outcomes by family of files and by outcome."""
    print("\n| family | files | outcomes |\n| --- | --- | --- |")
    for family in dict.fromkeys(end.sent.file.family for end in result):
        words = Counter(end.code for end in result if end.sent.file.family == family)
        print(f"| {family} | {words.total()} | {', '.join(f'{word} {n}' for word, n in words.most_common())} |")


def check_report(report: AttackReport, connections: int, folder: Path | None) -> bool:
    """Print the report and return whether it meets all targets."""
    show_outcomes(report.outcomes)
    wrong = [end for end in report.outcomes if not end.is_expected]
    for end in wrong[:50]:
        print(f"unexpected outcome: {end.code}: {end.sent.file.family}, {end.sent.file.label}")
    if wrong and folder is not None:
        save_files(folder, wrong)
    copies = [end for end in report.outcomes if end.sent.file.family == "mutation"]
    reached = sum(end.sent.document_id is not None for end in copies)
    slots, memory = WorkerSettings().concurrency, ParserSettings().max_memory_mb
    waits, limit = sorted(item.seconds for item in report.neighbour_uploads), max(report.ended_jobs, default=0)
    parser = report.watch.peaks_mb.get("parser", 0.0)
    print(f"\n{len(report.outcomes)} files in {report.seconds:.0f} s, {len(wrong)} unexpected outcomes (target: 0)")
    print(f"{len(copies)} mutated files, {reached} of them reached a parser (target: {MIN_PARSED_SHARE:.0%})")
    print(f"connections to the address in the files: {connections} (target: 0)")
    print(
        "peak memory, MB: " + ", ".join(f"{name} {size:.0f}" for name, size in report.watch.peaks_mb.items()), end=" "
    )
    print(f"(target: parser {memory})")
    print(f"workers: {len(report.watch.worker_pids)} seen, {report.living_worker_count} alive (target: at least 1)")
    print(f"{len(waits)} uploads of the neighbour: ready after {waits[len(waits) // 2]:.1f} s (median),", end=" ")
    print(
        f"{waits[-1]:.1f} s at most; at most {limit} hostile jobs ended between an upload and the claim of its job",
        end=" ",
    )
    print(f"(target: at most {slots}, the concurrency of the worker)")
    locked = parser <= memory and report.living_worker_count > 0 and limit <= slots and connections == 0
    return not wrong and locked and reached >= MIN_PARSED_SHARE * len(copies)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make prove NAME=torture", description=__doc__)
    parser.add_argument(
        "--mutations",
        type=int,
        default=MUTATIONS,
        metavar="N",
        help=f"number of mutated copies of real files (default: {MUTATIONS})",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the mutations (default: 1)")
    parser.add_argument("--quick", action="store_true", help=f"send only {QUICK_MUTATIONS} mutated copies")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="folder for files with an unexpected outcome")
    provided = parser.parse_args(arguments)
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data or not (Path(data) / "torture" / "manifest.json").is_file():
        sys.stderr.write("Set CARREL_EVAL_DATA to a directory with torture/manifest.json.\n")
        return 2
    torture, count = Path(data) / "torture", QUICK_MUTATIONS if provided.quick else provided.mutations
    with embedding_endpoint() as endpoint, running_service(endpoint) as service, link_listener() as listener:
        with service.create_client() as client:
            right = run_set(client, torture)
            files = generate_hostile_files(listener.url, torture, count=count, seed=provided.seed)
            visited = asyncio.run(run_attack(service, client, files))
        locked = check_report(visited, listener.connections, provided.save)
    return int(not (right and locked))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))

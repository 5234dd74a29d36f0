"""``make prove NAME=torture``: upload the torture set and 3,000 hostile files to a running service.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. Everything goes in by HTTP, with the limits that are the
defaults; meanwhile another tenant uploads a small text every second, and a socket waits for whoever follows a link.
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
from harness.hostile import HostileFile, real_files
from harness.hostile.archives import zip_bombs
from harness.hostile.false_types import hostile_names, lying_files
from harness.hostile.images import hostile_pictures
from harness.hostile.links import linking_files
from harness.hostile.listener import listening
from harness.hostile.mutations import mutations
from harness.hostile.observers import Visit, Watch, ended_meanwhile, living_workers, visit
from harness.hostile.pdfs import pdf_bombs, pdf_lies, pdf_loops
from harness.hostile.texts import hostile_texts
from harness.hostile.uploads import End, Sent, ends, save, send
from harness.processes import RunningService, embedding_endpoint, end_as_usual, running_service
from proofs.fairness import small_tenant
from proofs.torture_set import run_set

MUTATIONS, QUICK_MUTATIONS = 2_000, 200
REACH = 0.5
"""The share of the mutated files that must get past sniffing, to a parser."""

QUIET_SECONDS = 600
LARGEST_SOURCE = 200_000
_LEFT = "select count(*) from job where tenant_id = $1 and kind = 'ingest_document' and state <> 'dead'"


@dataclass(frozen=True, slots=True)
class Attack:
    """All that was seen of it."""

    ends: list[End]
    visits: list[Visit]
    ended: list[int]
    watch: Watch
    seconds: float
    workers_alive: int


def hostile_files(url: str, torture: Path, *, count: int, seed: int) -> Iterator[HostileFile]:
    """The whole set; ``url`` is what the links lead to."""
    sources = list(real_files())
    sources += [(path.name, path.read_bytes()) for path in sorted(torture.iterdir()) if path.suffix != ".json"]
    mutable = [(name, data) for name, data in sources if len(data) <= LARGEST_SOURCE]
    return chain(
        linking_files(url), hostile_names(), zip_bombs(), pdf_bombs(), pdf_loops(), pdf_lies(), hostile_pictures(),
        hostile_texts(), lying_files(), mutations(mutable, count=count, seed=seed),
    )  # fmt: skip


async def until_settled(owner: asyncpg.Connection, tenant: object) -> None:
    """Until no document of the tenant waits; gives up when nothing has got on for QUIET_SECONDS."""
    before, moved = -1, time.monotonic()
    while left := await owner.fetchval(_LEFT, tenant):
        if left != before:
            before, moved = left, time.monotonic()
        if time.monotonic() - moved > QUIET_SECONDS:
            return
        await asyncio.sleep(0.5)


async def attack(service: RunningService, client: httpx2.Client, files: Iterator[HostileFile]) -> Attack:
    """Upload all, beside the neighbour, and wait for the last."""
    started, watch, attacking = time.monotonic(), Watch(), True
    runtime = json.loads((service.data_dir / "runtime.json").read_text())
    owner, other = [await asyncpg.connect(runtime["admin_database_url"]) for _ in range(2)]
    tenant = decode_id("ten", client.get("/v1/me").json()["tenant"]["id"])
    with small_tenant(service) as (neighbour_id, neighbour):
        looking = asyncio.create_task(watch.keep(service))
        visiting = asyncio.create_task(
            visit(other, neighbour, decode_id("ten", neighbour_id), wanted=lambda: attacking)
        )
        try:
            sent: list[Sent] = await asyncio.to_thread(send, client, files)
            print(f"{len(sent)} files sent in {time.monotonic() - started:.0f} s", flush=True)
            await until_settled(owner, tenant)
            attacking = False
            visits = await visiting
        finally:
            looking.cancel()
            visiting.cancel()
            await owner.close()
            await other.close()
    seconds = time.monotonic() - started
    ended = ended_meanwhile(service.data_dir.parent / "serve.log", tenant, visits)
    alive = len(watch.workers & living_workers(service))
    return Attack(await asyncio.to_thread(ends, client, sent), visits, ended, watch, seconds, alive)


def show_ends(found: Sequence[End]) -> None:
    """By family and word."""
    print("\n| family | files | ended |\n| --- | --- | --- |")
    for family in dict.fromkeys(end.sent.file.family for end in found):
        words = Counter(end.word for end in found if end.sent.file.family == family)
        print(f"| {family} | {words.total()} | {', '.join(f'{word} {n}' for word, n in words.most_common())} |")


def judge(seen: Attack, connections: int, folder: Path | None) -> bool:
    """Print everything; whether all of it is as it should be."""
    show_ends(seen.ends)
    wrong = [end for end in seen.ends if not end.good]
    for end in wrong[:50]:
        print(f"wrong: {end.word}: {end.sent.file.family}, {end.sent.file.label}")
    if wrong and folder is not None:
        save(folder, wrong)
    copies = [end for end in seen.ends if end.sent.file.family == "mutation"]
    reached = sum(end.sent.document is not None for end in copies)
    slots, memory = WorkerSettings().concurrency, ParserSettings().max_memory_mb
    waits, most = sorted(one.seconds for one in seen.visits), max(seen.ended, default=0)
    parser = seen.watch.peaks.get("parser", 0.0)
    print(f"\n{len(seen.ends)} files in {seen.seconds:.0f} s, {len(wrong)} ended as none may (reach: 0)")
    print(f"{len(copies)} mutated, {reached} of them reached a parser (reach: {REACH:.0%})")
    print(f"connections to the address in the files: {connections} (reach: 0)")
    print("peak memory, MB: " + ", ".join(f"{name} {size:.0f}" for name, size in seen.watch.peaks.items()), end=" ")
    print(f"(reach: parser {memory})")
    print(f"workers: {len(seen.watch.workers)} seen, {seen.workers_alive} of them alive (reach: at least 1)")
    print(f"the neighbour's {len(waits)} uploads: ready after {waits[len(waits) // 2]:.1f} s in the median,", end=" ")
    print(f"{waits[-1]:.1f} s at most; {most} hostile jobs at most ended between its answer and its claim", end=" ")
    print(f"(reach: {slots}, one for each place)")
    held = parser <= memory and seen.workers_alive > 0 and most <= slots and connections == 0
    return not wrong and held and reached >= REACH * len(copies)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make prove NAME=torture", description=__doc__)
    parser.add_argument("--mutations", type=int, default=MUTATIONS, metavar="N", help="mutated copies of real files")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what they are made from")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MUTATIONS} mutated copies")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="where files that ended as none may are kept")
    given = parser.parse_args(arguments)
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data or not (Path(data) / "torture" / "manifest.json").is_file():
        sys.stderr.write("CARREL_EVAL_DATA does not name a directory with torture/manifest.json\n")
        return 2
    torture, count = Path(data) / "torture", QUICK_MUTATIONS if given.quick else given.mutations
    with embedding_endpoint() as endpoint, running_service(endpoint) as service, listening() as listener:
        with service.client() as client:
            right = run_set(client, torture)
            files = hostile_files(listener.url, torture, count=count, seed=given.seed)
            seen = asyncio.run(attack(service, client, files))
        held = judge(seen, listener.connections, given.save)
    return int(not (right and held))


if __name__ == "__main__":
    end_as_usual()
    sys.exit(main(sys.argv[1:]))

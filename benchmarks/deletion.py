"""``make bench NAME=deletion``: measure the searches of one tenant while a tenant of 500,000 chunks is deleted.

COPY fills the tables of a new database. Searches go over HTTP to an API in a separate process. The deletion runs in
the process of the benchmark, with the code that a worker runs.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import cycle

import httpx2

from app.cleanup.purge import Purger
from app.db.index_ddl import OwnerDatabase
from app.db.models.base import SYSTEM_TENANT
from app.documents.deletion.receipt_repository import ReceiptRepository
from app.ids import generate_id
from app.index_maintenance.index_drop import IndexDropper
from app.sql_views.reconciler import SqlViewReconciler
from benchmarks.scale_corpus import MEAN_WORDS, Question, SyntheticCorpus, build_share_metadata
from benchmarks.scale_database import ScaleDatabase, ScaleTenant, running_api, running_postgres
from harness.loader import Loader
from harness.processes import embedding_endpoint, exit_on_sigterm

DELETED_CHUNKS, OTHER_CHUNKS = 500_000, 10_000
IDLE_SECONDS = 30.0
PAUSE_SECONDS = 0.02
QUESTIONS = 200


@dataclass(frozen=True, slots=True)
class SearchLatency:
    """Number of searches and percentiles of their times in milliseconds."""

    count: int
    p50: float
    p99: float

    @classmethod
    def from_times(cls, times: Sequence[float]) -> "SearchLatency":
        return cls(len(times), statistics.median(times), statistics.quantiles(times, n=100)[98])


def search(client: httpx2.Client, question: Question) -> float:
    """Send one search and return its milliseconds. A search without results is an error."""
    body = {"query": question.text}
    started = time.perf_counter()
    reply = client.post("/v1/knowledge-bases/default/search", json=body)
    took = (time.perf_counter() - started) * 1000
    if not reply.raise_for_status().json()["results"]:
        raise RuntimeError("the search of the other tenant returned no results")
    return took


async def search_until(client: httpx2.Client, questions: Sequence[Question], until: asyncio.Event) -> list[float]:
    """Send searches one after the other until the event is set, and return their milliseconds."""
    times = []
    for question in cycle(questions):
        times.append(await asyncio.to_thread(search, client, question))
        await asyncio.sleep(PAUSE_SECONDS)
        if until.is_set():
            return times
    return times


async def delete(database: ScaleDatabase, going: ScaleTenant) -> float:
    """Delete a tenant as the operator's DELETE and its job do, check the receipt, and return the seconds."""
    resources, tenant_id = database.resources, going.index.tenant_id
    find_expired = partial(resources.control_plane.find_expired_indexes, rollback_period=timedelta(days=1), limit=1)
    owner = OwnerDatabase(database.urls.owner)
    dropping = IndexDropper(resources.database, resources.queue, find_expired, owner)
    sql_views = SqlViewReconciler(resources.database, resources.queue, owner)
    erasing = Purger(resources.database, resources.queue, resources.objects, dropping, sql_views, resources.tenants)
    started = time.monotonic()
    deletion = await resources.tenants.delete(tenant_id)
    await erasing.purge_tenant(tenant_id, deletion_id=deletion, job_id=generate_id())
    took = time.monotonic() - started
    await database.owner.execute("delete from job")
    async with resources.database.transaction(SYSTEM_TENANT) as session:
        receipt = await ReceiptRepository(session, SYSTEM_TENANT).get(deletion)
    if receipt is None or receipt.remaining is None or any(receipt.remaining.values()):
        raise RuntimeError("the deletion receipt is missing or lists remaining rows")
    return took


async def run(
    database: ScaleDatabase, client: httpx2.Client, going: ScaleTenant, questions: Sequence[Question]
) -> None:
    """Measure another tenant's searches without other load and during the deletion, and print both."""
    for question in questions:  # warms up caches and connections
        await asyncio.to_thread(search, client, question)
    end = asyncio.Event()
    asyncio.get_running_loop().call_later(IDLE_SECONDS, end.set)
    idle = SearchLatency.from_times(await search_until(client, questions, end))
    end = asyncio.Event()
    parallel = asyncio.create_task(search_until(client, questions, end))
    took = await delete(database, going)
    end.set()
    busy = SearchLatency.from_times(await parallel)
    print("\n| searches of another tenant | count | p50, ms | p99, ms |\n| --- | --- | --- | --- |")
    for name, result in (("idle", idle), ("during the deletion", busy)):
        print(f"| {name} | {result.count} | {result.p50:.1f} | {result.p99:.1f} |")
    print(f"\ndeleted in {took:.0f} s; p50 {busy.p50 / idle.p50:.2f}x, p99 {busy.p99 / idle.p99:.2f}x of idle")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench NAME=deletion", description=__doc__)
    parser.add_argument(
        "--chunks",
        type=int,
        default=DELETED_CHUNKS,
        metavar="N",
        help=f"chunks of the deleted tenant (default: {DELETED_CHUNKS})",
    )
    parser.add_argument("--promoted", action="store_true", help="build a vector index for the deleted tenant")
    provided = parser.parse_args(arguments)
    created = SyntheticCorpus(1)

    async def run_benchmark() -> None:
        async with ScaleDatabase.open(postgres, "deletion", settings) as database:
            going, staying = await database.create_tenant("going"), await database.create_tenant("staying")
            async with Loader.open(database.superuser_url) as loader, loader.without_secondary_indexes():
                for shelf, chunks in ((going, provided.chunks), (staying, OTHER_CHUNKS)):
                    batches = created.generate_batches(chunks, seed=chunks)
                    await loader.fill_index(shelf.index, batches, created.terms, build_share_metadata, avgdl=MEAN_WORDS)
            if provided.promoted:
                await database.build_vector_index(going.index, provided.chunks)
            print(f"{provided.chunks} chunks loaded", file=sys.stderr, flush=True)
            with running_api(database.urls, settings, staying.key) as client:
                await run(database, client, going, created.generate_questions(QUESTIONS))

    with embedding_endpoint() as endpoint, running_postgres(endpoint) as (postgres, settings):
        asyncio.run(run_benchmark())
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))

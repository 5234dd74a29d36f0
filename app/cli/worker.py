"""``carrel worker``: a process that runs the jobs of the queue."""

import asyncio
import gc
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import typer
import uvloop

from app.bootstrap import Resources
from app.cli.runtime_state import find_runtime
from app.db.index_ddl import OwnerDatabase
from app.ingestion.parse_reuse import OriginalParser
from app.ingestion.parsers.factory import create_parser_pool
from app.ingestion.pipeline import IngestionPipeline
from app.logging import configure_logging, get_logger
from app.sandbox.kernel import protect_memory
from app.settings import Settings, load_settings
from app.worker.loop import Worker

logger = get_logger(__name__)

HEARTBEAT_INTERVAL_SECONDS = 1.0


def worker(
    attached: Annotated[
        bool, typer.Option(hidden=True, help="Started by serve: end when standard input ends.")
    ] = False,
) -> None:
    """Run a worker, which processes the jobs of the queue: ingestion, deletion, maintenance and webhooks.

    Any number of workers may run, on any number of machines. Without CARREL_DATABASE_URL, the worker uses the embedded
    Postgres of the service that runs on the data directory. `carrel serve` starts a worker itself.

    Example: carrel worker

    Example: CARREL_DATABASE_URL=… CARREL_S3_BUCKET=… carrel worker
    """
    settings = load_settings()
    configure_logging(settings.server.log_level)
    protect_memory()
    if attached:
        os.nice(10)  # ingestion shares the processor cores with searches, which have priority
    uvloop.run(_run(settings, attached=attached))


async def _run(settings: Settings, *, attached: bool) -> None:
    runtime = find_runtime(settings)
    operator_key = secrets.token_urlsafe(32)  # a worker accepts no requests
    cores = len(os.sched_getaffinity(0))
    async with (
        _send_heartbeats(attached=attached),
        Resources.open(
            settings,
            database_url=runtime.database_url,
            operator_key=operator_key,
            bulk_threads=cores,
            opens_reranker=False,
        ) as resources,
        create_parser_pool(settings.parser, cores, spare_processes=settings.worker.extra_jobs) as parsers,
    ):
        pipeline = IngestionPipeline(
            resources.objects,
            OriginalParser(resources.objects, parsers),
            resources.embedders,
            resources.queue,
            resources.extractors,
            resources.vision,
        )
        owner = OwnerDatabase(runtime.admin_database_url) if runtime.admin_database_url is not None else None
        job_worker = Worker(resources, pipeline, owner)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, job_worker.stop)
        if attached:
            await _watch_parent(job_worker)
        gc.collect()
        gc.freeze()  # objects of the start stay alive: without a freeze, a full collection takes 0.1 s
        logger.info("worker.started", name=job_worker.name)
        await job_worker.run()
        logger.info("worker.stopped", name=job_worker.name)


@asynccontextmanager
async def _send_heartbeats(*, attached: bool) -> AsyncIterator[None]:
    """Write a byte to ``serve`` every second. If the event loop freezes, the bytes stop."""
    heartbeats = asyncio.create_task(_write_heartbeats()) if attached else None
    try:
        yield
    finally:
        if heartbeats is not None:
            heartbeats.cancel()


async def _write_heartbeats() -> None:
    os.set_blocking(sys.stdin.fileno(), False)
    while True:
        with suppress(OSError):  # serve has ended, or does not read for a moment
            os.write(sys.stdin.fileno(), b".")
        await asyncio.sleep(HEARTBEAT_INTERVAL_SECONDS)


async def _watch_parent(job_worker: Worker) -> None:
    """Stop the worker when its standard input ends. Standard input is a socket that the kernel closes when ``serve``
    ends.
    """
    await asyncio.get_running_loop().connect_read_pipe(lambda: _ParentWatcher(job_worker), sys.stdin)


class _ParentWatcher(asyncio.Protocol):
    def __init__(self, job_worker: Worker) -> None:
        self.job_worker = job_worker

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (the signature is asyncio's)
        self.job_worker.stop(immediately=True)  # the embedded database ends with serve, so jobs cannot finish

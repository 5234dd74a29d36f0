"""``carrel worker``: ingestion in a process of its own."""

import asyncio
import os
import secrets
import signal
import sys
from typing import Annotated

import typer

from app.bootstrap import Resources, open_parsers
from app.cli.runtime import find_runtime
from app.ingestion.pipeline import IngestionPipeline
from app.logging import configure, get_logger
from app.settings import Settings, load_settings
from app.worker import Worker

logger = get_logger(__name__)


def worker(
    attached: Annotated[
        bool, typer.Option(hidden=True, help="Started by serve: end when standard input does.")
    ] = False,
) -> None:
    """Work through the job queue; any number may run, on any number of machines.

    Without CARREL_DATABASE_URL it joins the service that runs on the data directory.

    Example: CARREL_DATABASE_URL=… CARREL_S3_BUCKET=… carrel worker
    """
    settings = load_settings()
    configure(settings.server.log_level)
    if attached:
        os.nice(10)  # ingestion shares the cores with searches, and gives way to them
    asyncio.run(_run(settings, attached=attached))


async def _run(settings: Settings, *, attached: bool) -> None:
    runtime = find_runtime(settings)
    nobody = secrets.token_urlsafe(32)  # a worker lets nobody in
    cores = len(os.sched_getaffinity(0))
    async with (
        Resources.open(
            settings, database_url=runtime.database_url, operator_key=nobody, bulk_threads=cores
        ) as resources,
        open_parsers(settings.parser, cores) as parsers,
    ):
        pipeline = IngestionPipeline(resources.objects, parsers, resources.embedder, resources.queue, resources.vision)
        running = Worker(resources, pipeline)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        if attached:
            await _watch_parent(running)
        logger.info("worker.started", name=running.name)
        await running.run()
        logger.info("worker.stopped", name=running.name)


async def _watch_parent(running: Worker) -> None:
    """Standard input is a pipe from ``serve``: its end means that serve is gone, however it ended."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: _EndOfParent(reader, running), sys.stdin)


class _EndOfParent(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, running: Worker) -> None:
        super().__init__(reader)
        self.running = running

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.running.stop(at_once=True)  # without serve there is no embedded database to finish with

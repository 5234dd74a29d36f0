"""The parser processes that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.ingestion.parsers.registry import load_installed_parsers
from app.ingestion.parsers.sandbox.pool import RECYCLE_AFTER_REQUESTS, ParserPool
from app.ingestion.parsers.toolkit.tessdata import find_language_data
from app.settings import ParserSettings


@asynccontextmanager
async def create_parser_pool(
    settings: ParserSettings, cores: int, *, spare_processes: int = 0
) -> AsyncIterator[ParserPool]:
    """Start the processes that read untrusted files: as many as configured, else one a core.

    ``spare_processes`` processes more are started when they are needed.
    """
    pool = _build_pool(settings, processes=settings.processes or cores, spare_processes=spare_processes)
    try:
        await pool.start_processes()
        yield pool
    finally:
        await pool.close()


def create_preview_pool(settings: ParserSettings, *, processes: int, timeout_seconds: int) -> ParserPool:
    """Less time, and a process for each file: none waits in the API process's memory."""
    timeouts = {
        "cpu_timeout_seconds": min(settings.cpu_timeout_seconds, timeout_seconds),
        "timeout_seconds": min(settings.timeout_seconds, timeout_seconds),
    }
    return _build_pool(settings.model_copy(update=timeouts), processes=processes, recycle_after_calls=1)


def _build_pool(
    settings: ParserSettings,
    *,
    processes: int,
    spare_processes: int = 0,
    recycle_after_calls: int = RECYCLE_AFTER_REQUESTS,
) -> ParserPool:
    return ParserPool(
        processes=processes,
        spare_processes=spare_processes,
        memory_mb=settings.max_memory_mb,
        cpu_timeout_seconds=settings.cpu_timeout_seconds,
        wall_clock_timeout_seconds=settings.timeout_seconds,
        max_pages=settings.max_pages,
        max_characters=settings.max_characters,
        ocr=find_language_data(settings.ocr_languages, settings.tessdata_dir),
        parsers=load_installed_parsers(),
        recycle_after_requests=recycle_after_calls,
    )

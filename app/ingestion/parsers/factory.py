"""Creation of the pools of parser processes from the settings."""

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
    """Start a pool of parser processes, and close it when the block ends.

    Args:
        settings: Limits, and the number of processes.
        cores: Number of processor cores. If the settings name no number of processes, each core gets one.
        spare_processes: Maximum number of further processes, which start when they are needed.

    Yields:
        The pool, with its processes started.

    Raises:
        ParserUnavailable: A process cannot be started.
    """
    pool = _build_pool(settings, processes=settings.processes or cores, spare_processes=spare_processes)
    try:
        await pool.start_processes()
        yield pool
    finally:
        await pool.close()


def create_preview_pool(settings: ParserSettings, *, processes: int, timeout_seconds: int) -> ParserPool:
    """Create the pool for chunking previews, whose timeouts are at most ``timeout_seconds``.

    Each process parses one file and then ends, so that no idle process uses memory next to the API.
    """
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

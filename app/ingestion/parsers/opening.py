"""The parser processes that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.ingestion.parsers.installed import installed_parsers
from app.ingestion.parsers.pool import RECYCLE_AFTER_CALLS, ParserPool
from app.ingestion.parsers.tessdata import find_language_data
from app.settings import ParserSettings


@asynccontextmanager
async def open_parsers(settings: ParserSettings, cores: int, *, spare: int = 0) -> AsyncIterator[ParserPool]:
    """Start the processes that read untrusted files: as many as configured, else one a core.

    ``spare`` processes more are started when they are needed.
    """
    pool = _pool(settings, processes=settings.processes or cores, spare=spare)
    try:
        await pool.warm()
        yield pool
    finally:
        await pool.close()


def preview_pool(settings: ParserSettings, *, processes: int, most_seconds: int) -> ParserPool:
    """Less time, and a process for each file: none waits in the API process's memory."""
    hurried = {
        "cpu_seconds": min(settings.cpu_seconds, most_seconds),
        "wall_seconds": min(settings.wall_seconds, most_seconds),
    }
    return _pool(settings.model_copy(update=hurried), processes=processes, recycle_after_calls=1)


def _pool(
    settings: ParserSettings, *, processes: int, spare: int = 0, recycle_after_calls: int = RECYCLE_AFTER_CALLS
) -> ParserPool:
    return ParserPool(
        processes=processes,
        spare=spare,
        memory_mb=settings.memory_mb,
        cpu_seconds=settings.cpu_seconds,
        wall_seconds=settings.wall_seconds,
        max_pages=settings.max_pages,
        max_characters=settings.max_characters,
        ocr=find_language_data(settings.ocr_languages, settings.tessdata_dir),
        parsers=installed_parsers(),
        recycle_after_calls=recycle_after_calls,
    )

"""Loading of one include within a time limit."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import DBAPIError

from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.graph.includes import INCLUDES
from app.section_notes.types import SectionedChunk

INCLUDE_FAILURES = (DBAPIError, TimeoutError, DatabaseUnavailable, DatabaseRefused)
"""Errors after which the caller leaves an include out."""


async def load_include(
    db: TenantDatabase, name: str, chunks: Sequence[SectionedChunk], *, timeout_seconds: float
) -> Mapping[SectionedChunk, Sequence[Any]]:
    """Load the items of one include in a transaction.

    Args:
        db: Database in the tenant's scope.
        name: Name of the include.
        chunks: Chunks that the caller may read.
        timeout_seconds: Time limit.

    Returns:
        The items by chunk. Chunks without items may be missing.

    Raises:
        Exception: One of ``INCLUDE_FAILURES``.
        StaleCacheError: The cached knowledge bases of a search are outdated.
    """
    async with (
        asyncio.timeout(timeout_seconds),
        db.read_transaction(snapshot=True, statement_timeout_seconds=timeout_seconds) as reader,
    ):
        return await INCLUDES[name].load(reader, chunks)

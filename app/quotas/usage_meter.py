"""Meter of the usage of keys: counted in memory and written in the background, so that no request waits for it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from uuid import UUID

from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.session import Database
from app.errors import UnavailableError
from app.logging import get_logger
from app.quotas.repository import QuotaRepository
from app.quotas.types import NO_KEY

logger = get_logger(__name__)

# Counts of this period are lost if a process is killed.
WRITE_INTERVAL_SECONDS = 5.0
CLOSE_TIMEOUT_SECONDS = 5.0
UsageCounts = dict[tuple[date, UUID], Counter[str]]


@dataclass(slots=True)
class UsageMeter:
    """Counts of searches, uploads and query tokens by tenant, day (UTC) and key, shared by a process."""

    database: Database
    write_interval_seconds: float = WRITE_INTERVAL_SECONDS
    _counts: dict[UUID, UsageCounts] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def count(self, tenant_id: UUID, key_id: UUID | None, **counts: int) -> None:
        """Add counts by the names in ``COUNTED_FIELDS``."""
        usage_key = datetime.now(UTC).date(), key_id or NO_KEY
        self._counts.setdefault(tenant_id, {}).setdefault(usage_key, Counter()).update(counts)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_periodically())

    async def write(self, tenant_id: UUID) -> None:
        """Write the counts of a tenant. If the write fails, they are kept for the next attempt.

        Args:
            tenant_id: The tenant. Counts of a deleted tenant are discarded.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        counts = self._counts.pop(tenant_id, None)
        if counts is None:
            return
        try:
            async with self.database.transaction(tenant_id) as session:
                await QuotaRepository(session, tenant_id).add_usage(counts)
        except IntegrityError:  # the tenant was deleted
            return
        except BaseException:
            pending = self._counts.setdefault(tenant_id, {})
            for usage_key, counter in counts.items():
                pending.setdefault(usage_key, Counter()).update(counter)
            raise

    async def write_all(self) -> None:
        """Write the counts of every tenant."""
        for tenant_id in list(self._counts):
            await self.write(tenant_id)

    async def close(self) -> None:
        """Write the remaining counts."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self.write_all()
        except (UnavailableError, DBAPIError, TimeoutError) as error:
            logger.warning("usage.lost", error=error)

    async def _write_periodically(self) -> None:
        while self._counts:
            await asyncio.sleep(self.write_interval_seconds)
            try:
                await self.write_all()
            except (UnavailableError, DBAPIError) as error:  # tried again the next time
                logger.warning("usage.waiting", error=error)

"""What keys do, counted in memory and written in the background: nobody's search or upload waits for it."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from uuid import UUID

from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.session import Database
from app.errors import Unavailable
from app.logging import get_logger
from app.quotas.repository import QuotaRepository
from app.quotas.types import NO_KEY

logger = get_logger(__name__)

# So much is lost where a process is killed.
SECONDS = 5.0
CLOSING_SECONDS = 5.0
Counts = dict[tuple[date, UUID], Counter[str]]


@dataclass(slots=True)
class UsageMeter:
    """Searches, uploads and the tokens of queries, by tenant, day (UTC) and key; one for a process."""

    database: Database
    seconds: float = SECONDS
    _counts: dict[UUID, Counts] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def add(self, tenant_id: UUID, key_id: UUID | None, **counts: int) -> None:
        """Count; the names are those of ``COUNTED``."""
        place = datetime.now(UTC).date(), key_id or NO_KEY
        self._counts.setdefault(tenant_id, {}).setdefault(place, Counter()).update(counts)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def write(self, tenant_id: UUID) -> None:
        """Write what was counted of a tenant; where that fails, it is kept. Raises DatabaseUnavailable."""
        counts = self._counts.pop(tenant_id, None)
        if counts is None:
            return
        try:
            async with self.database.transaction(tenant_id) as session:
                await QuotaRepository(session, tenant_id).add(counts)
        except IntegrityError:  # the tenant is gone
            return
        except BaseException:
            kept = self._counts.setdefault(tenant_id, {})
            for place, counter in counts.items():
                kept.setdefault(place, Counter()).update(counter)
            raise

    async def write_all(self) -> None:
        """The same of every tenant."""
        for tenant_id in list(self._counts):
            await self.write(tenant_id)

    async def close(self) -> None:
        """Write what is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await self.write_all()
        except (Unavailable, DBAPIError, TimeoutError) as error:
            logger.warning("usage.lost", error=error)

    async def _run(self) -> None:
        while self._counts:
            await asyncio.sleep(self.seconds)
            try:
                await self.write_all()
            except (Unavailable, DBAPIError) as error:  # tried again the next time
                logger.warning("usage.waiting", error=error)

"""Times of the last use of keys, recorded in memory and written in the background."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import Database
from app.errors import AppError
from app.logging import get_logger
from app.tenants.repository import TenantRepository

logger = get_logger(__name__)

# A key in constant use is written once in this interval. Uses of the interval are lost if a process is killed.
WRITE_INTERVAL_SECONDS = 60.0
POLL_INTERVAL_SECONDS = 1.0
CLOSE_TIMEOUT_SECONDS = 5.0
TenantKeyId = tuple[UUID, UUID]


@dataclass(slots=True)
class KeyUsageRecorder:
    """Recorder of uses. It writes a key's first use within two seconds, and later uses at most once a minute."""

    database: Database
    write_interval_seconds: float = WRITE_INTERVAL_SECONDS
    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    clock: Callable[[], float] = time.monotonic
    _used: dict[TenantKeyId, datetime] = field(default_factory=dict)
    _written: dict[TenantKeyId, float] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def record(self, tenant_id: UUID, key_id: UUID) -> None:
        """Record that the key was used now."""
        self._used[tenant_id, key_id] = datetime.now(UTC)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_periodically())

    async def write(self) -> None:
        """Write the uses of keys that were not written within the interval."""
        now = self.clock()
        self._written = {use: at for use, at in self._written.items() if now - at < self.write_interval_seconds}
        due: dict[UUID, dict[UUID, datetime]] = {}
        for (tenant_id, key_id), at in sorted(self._used.items()):  # a fixed order prevents deadlocks between processes
            if (tenant_id, key_id) not in self._written:
                due.setdefault(tenant_id, {})[key_id] = at
        for tenant_id, uses in due.items():
            async with self.database.transaction(tenant_id) as session:
                await TenantRepository(session).record_uses(tenant_id, uses)
            for key_id, at in uses.items():
                self._written[tenant_id, key_id] = now
                if self._used[tenant_id, key_id] == at:
                    del self._used[tenant_id, key_id]

    async def close(self) -> None:
        """Write the remaining uses."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._written.clear()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self.write()
        except (AppError, DBAPIError, TimeoutError) as error:
            logger.warning("key_usage.lost", error=error)

    async def _write_periodically(self) -> None:
        while self._used or self._written:
            await asyncio.sleep(self.poll_interval_seconds)
            try:
                await self.write()
            except (AppError, DBAPIError) as error:  # the next interval tries again
                logger.warning("key_usage.waiting", error=error)

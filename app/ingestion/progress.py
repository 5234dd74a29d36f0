"""How far a document is, told to those who wait for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.db.session import TenantDatabase
from app.errors import AppError
from app.ingestion.time_slice import PreemptionTimer
from app.ingestion.version_repository import VersionRepository

# Telling costs a transaction: a small document is done before anybody could look, and is never told of.
REPORT_INTERVAL_SECONDS = 0.25


class VersionSuperseded(AppError):
    """The version is not wanted any more: deleted, replaced by a newer upload, or settled by another worker."""


@dataclass(slots=True)
class IngestionProgress:
    """A version's stage and counts, written into its row every quarter of a second if they changed.

    Without a version nobody is told: the document is ready, and is made into another index.
    """

    db: TenantDatabase
    document_id: UUID
    version: int | None
    stage: str = "parsing"
    counts: dict[str, Any] | None = None
    preemption: PreemptionTimer = field(default_factory=PreemptionTimer)
    _reported: tuple[str, dict[str, Any] | None] | None = None
    _is_superseded: bool = False

    def report(self, stage: str, **counts: int | str) -> None:
        """Report the stage, and counts such as ``done``, ``total`` and ``unit``.

        Raises VersionSuperseded if the version was deleted, replaced, or finished by another worker.
        """
        self.stage, self.counts = stage, counts or None
        if self._is_superseded:
            raise VersionSuperseded

    def report_slice(self, stage: str, **counts: int | str) -> None:
        """Report as ``report``, between slices that are kept.

        Raises JobPreempted too, where the job should end here.
        """
        self.report(stage, **counts)
        self.preemption.check_preemption()

    @asynccontextmanager
    async def report_periodically(self) -> AsyncIterator[None]:
        """Tell while the block runs; what fails in it fails in the stage that its document shows."""
        reporter = asyncio.create_task(self._run_reporter())
        try:
            yield
        except Exception:
            with suppress(AppError):  # the database may be what failed
                await self._write_status()
            raise
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)

    async def _run_reporter(self) -> None:
        while not self._is_superseded:
            await asyncio.sleep(REPORT_INTERVAL_SECONDS)
            with suppress(AppError):  # the next one may get through
                await self._write_status()

    async def _write_status(self) -> None:
        state = self.stage, self.counts
        if state == self._reported or self.version is None:
            return
        async with self.db.transaction() as session:
            repository = VersionRepository(session, self.db.tenant_id)
            self._is_superseded = not await repository.set_status(self.document_id, self.version, *state)
        self._reported = state

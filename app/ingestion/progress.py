"""Progress of an ingestion, written into the document's row for the clients that wait for it."""

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

REPORT_INTERVAL_SECONDS = 0.25
"""Seconds between two reports, each of which is a transaction; a small document ends before the first one."""


class VersionSuperseded(AppError):
    """The version was deleted, replaced by a newer upload, or finished by another worker."""


@dataclass(slots=True)
class IngestionProgress:
    """Stage and counts of one version's ingestion, written every quarter of a second if they changed.

    Attributes:
        db: Database of the tenant.
        document_id: The document.
        version: The version. None for a reindex: the document is ready, so its progress is not written.
        stage: Stage, which is also the status of the document: parsing, chunking, embedding and so on.
        counts: Counts of the stage, such as ``done``, ``total`` and ``unit``.
        preemption: Timer of the job's time slice.
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
        """Set the stage and its counts.

        Raises:
            VersionSuperseded: The version was deleted, replaced, or finished by another worker.
        """
        self.stage, self.counts = stage, counts or None
        if self._is_superseded:
            raise VersionSuperseded

    def report_slice(self, stage: str, **counts: int | str) -> None:
        """Set the stage and its counts between two slices of work whose results are stored.

        Raises:
            VersionSuperseded: The version was deleted, replaced, or finished by another worker.
            JobPreempted: The job must give its place to another tenant.
        """
        self.report(stage, **counts)
        self.preemption.check_preemption()

    @asynccontextmanager
    async def report_periodically(self) -> AsyncIterator[None]:
        """Write the progress periodically while the block runs, and once more if the block fails.

        The row of a failed document thus shows the stage of the failure.
        """
        reporter = asyncio.create_task(self._run_reporter())
        try:
            yield
        except Exception:
            with suppress(AppError):  # the failure may be one of the database
                await self._write_status()
            raise
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)

    async def _run_reporter(self) -> None:
        while not self._is_superseded:
            await asyncio.sleep(REPORT_INTERVAL_SECONDS)
            with suppress(AppError):  # the next report may succeed
                await self._write_status()

    async def _write_status(self) -> None:
        state = self.stage, self.counts
        if state == self._reported or self.version is None:
            return
        async with self.db.transaction() as session:
            repository = VersionRepository(session, self.db.tenant_id)
            self._is_superseded = not await repository.set_status(self.document_id, self.version, *state)
        self._reported = state

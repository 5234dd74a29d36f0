"""Access to the audit log, page by page or as a stream."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import EventFilters, RecordedEvent
from app.db.session import TenantDatabase

BATCH_SIZE = 100


@dataclass(frozen=True, slots=True)
class AuditService:
    """Use cases of a tenant's admin, or the operator, for the audit log."""

    db: TenantDatabase

    async def list_events(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[RecordedEvent]:
        """Return a page of events, newest first."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).list_events(filters, after=after, limit=limit)

    async def has_events(self) -> bool:
        """Return whether the tenant exists, or has existed and its events are still stored."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).has_events()

    async def stream_pages(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None
    ) -> AsyncIterator[Sequence[RecordedEvent]]:
        """Yield all events in pages, newest first.

        No transaction stays open between pages, and new events are not included.
        """
        while events := await self.list_events(filters, after=after, limit=BATCH_SIZE):
            yield events
            after = events[-1].created_at, events[-1].id

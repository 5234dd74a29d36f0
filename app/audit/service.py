"""Read the audit: page by page, or all of it as a stream."""

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
    """What a tenant's admin, or the operator, reads of it."""

    db: TenantDatabase

    async def list_events(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[RecordedEvent]:
        """Newest first."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).list_events(filters, after=after, limit=limit)

    async def has_events(self) -> bool:
        """Whether there is such a tenant, or was, as long as its events are kept."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).has_events()

    async def stream_pages(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None
    ) -> AsyncIterator[Sequence[RecordedEvent]]:
        """All of them, newest first; no transaction stays open meanwhile, and what comes in behind is not met."""
        while events := await self.list_events(filters, after=after, limit=BATCH_SIZE):
            yield events
            after = events[-1].created_at, events[-1].id

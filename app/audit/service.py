"""Read the audit: page by page, or all of it as a stream."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import EventFilters, RecordedEvent
from app.db.session import TenantDatabase

BATCH = 100


@dataclass(frozen=True, slots=True)
class AuditService:
    """What a tenant's admin, or the operator, reads of it."""

    db: TenantDatabase

    async def page(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[RecordedEvent]:
        """Newest first."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).page(filters, after=after, limit=limit)

    async def is_known(self) -> bool:
        """Whether there is such a tenant, or was, as long as its events are kept."""
        async with self.db.transaction() as session:
            return await AuditRepository(session, self.db.tenant_id).is_known()

    async def pages(
        self, filters: EventFilters, *, after: tuple[datetime, UUID] | None
    ) -> AsyncIterator[Sequence[RecordedEvent]]:
        """All of them, newest first; no transaction stays open meanwhile, and what comes in behind is not met."""
        while found := await self.page(filters, after=after, limit=BATCH):
            yield found
            after = found[-1].created_at, found[-1].id

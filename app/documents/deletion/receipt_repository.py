"""Queries for receipts of deletions. A receipt is closed by the last job of its deletion."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import or_, select, tuple_

from app.db.models.ingestion_state import DeletionRow
from app.db.page_counts import count_selected
from app.db.session import Session
from app.db.statements import parse_statement

DeletionState = Literal["unfinished", "finished"]


@dataclass(frozen=True, slots=True)
class ReceiptFilters:
    """Conditions on receipts. None sets no condition.

    ``allowed_kb_ids`` and ``user_key`` are the restrictions of the caller's key; ``ReceiptRepository.get`` returns the
    receipts of deletions without a knowledge base to every key.
    """

    state: DeletionState | None = None
    kb_id: UUID | None = None
    allowed_kb_ids: Sequence[UUID] | None = None
    user_key: UUID | None = None


class ReceiptRepository:
    """Queries for receipts of one tenant. The receipt of a tenant's deletion belongs to the system tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def get(self, deletion_id: UUID) -> DeletionRow | None:
        """Return the receipt of a deletion."""
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id, DeletionRow.id == deletion_id)
        return await self.session.scalar(query)

    async def list_receipts(
        self, filters: ReceiptFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[DeletionRow]:
        """Return a page of receipts, newest first.

        Args:
            filters: Conditions on the receipts.
            after: Request time and id of the last receipt of the previous page; None for the first page.
            limit: Maximum number of receipts.
        """
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id)
        if filters.state is not None:
            finished_at = DeletionRow.finished_at
            query = query.where(finished_at.is_(None) if filters.state == "unfinished" else finished_at.is_not(None))
        if filters.kb_id is not None:
            query = query.where(DeletionRow.kb_id == filters.kb_id)
        if filters.allowed_kb_ids is not None:
            query = query.where(or_(DeletionRow.kb_id.is_(None), DeletionRow.kb_id.in_(filters.allowed_kb_ids)))
        if filters.user_key is not None:
            query = query.where(DeletionRow.user_key == filters.user_key)
        await count_selected(self.session, limit, query)
        if after is not None:
            query = query.where(tuple_(DeletionRow.requested_at, DeletionRow.id) < after)
        query = query.order_by(DeletionRow.requested_at.desc(), DeletionRow.id.desc()).limit(limit)
        return (await self.session.scalars(query)).all()

    async def lock(self, deletion_id: UUID) -> DeletionRow | None:
        """Return the receipt of a deletion and lock its row until the transaction ends."""
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id, DeletionRow.id == deletion_id)
        return await self.session.scalar(query.with_for_update())

    async def finish(self, deletion_id: UUID, job_id: UUID) -> None:
        """Delete a job that has completed its part, and close the receipt if it was the deletion's last job.

        The job is deleted under the receipt's lock, so that exactly one of two parallel jobs is the last one.
        """
        values = {"t": self.tenant_id, "id": deletion_id, "job": job_id, "deletion": str(deletion_id)}
        await self.session.fetch_rows(_REMOVE_JOB, values)
        await self.session.fetch_rows(_FINISH, values)

    async def record_residue(self, deletion_id: UUID, remaining: Mapping[str, int]) -> None:
        """Record counts of remaining rows and objects. Counts of other jobs stay."""
        values = {"t": self.tenant_id, "id": deletion_id, "remaining": json.dumps(dict(remaining))}
        await self.session.fetch_rows(_RECORD_RESIDUE, values)

    async def add_stored_file_count(self, deletion_id: UUID, stored_file_count: int) -> None:
        """Add to the number of deleted documents that were made from stored files, which are retained."""
        if stored_file_count:
            await self.session.fetch_rows(
                _ADD_STORED_FILE_COUNT, {"t": self.tenant_id, "id": deletion_id, "more": stored_file_count}
            )

    async def record_sql_views(self, deletion_id: UUID, sql_view_ids: Sequence[UUID]) -> None:
        """Record the SQL views whose database roles must be dropped before the receipt can be closed."""
        values = {"t": self.tenant_id, "id": deletion_id, "sql_views": list(sql_view_ids)}
        await self.session.fetch_rows(_RECORD_SQL_VIEWS, values)

    async def close_all(self) -> None:
        """Close all open receipts of a tenant that was removed completely."""
        await self.session.fetch_rows(_CLOSE_ALL, {"t": self.tenant_id})

    async def list_purged_tenants(self, *, within: timedelta) -> list[UUID]:
        """Return the tenants whose deletion was completed recently.

        The receipts of these deletions belong to the system tenant.
        """
        rows = await self.session.fetch_rows(_LIST_PURGED_TENANTS, {"t": self.tenant_id, "within": within})
        return [row["object_id"] for row in rows]

    async def requeue_jobs(self, deletion_id: UUID) -> bool:
        """Requeue the failed jobs of a deletion. Return False if the deletion has no jobs."""
        values = {"t": self.tenant_id, "deletion": str(deletion_id)}
        row = await self.session.fetch_row(_REQUEUE_JOBS, values)
        return row is not None and row["jobs"] > 0


_REMOVE_JOB = parse_statement("delete from job where tenant_id = :t and id = :job")
_RECORD_RESIDUE = parse_statement("""
update deletion set remaining = coalesce(remaining, '{}') || :remaining::jsonb where tenant_id = :t and id = :id""")
_RECORD_SQL_VIEWS = parse_statement("""
update deletion set sql_views = array(select distinct unnest(sql_views || :sql_views::uuid[]))
 where tenant_id = :t and id = :id""")
_ADD_STORED_FILE_COUNT = parse_statement(
    "update deletion set retained_files = retained_files + :more where tenant_id = :t and id = :id"
)
_FINISH = parse_statement("""
update deletion set finished_at = now() where tenant_id = :t and id = :id
   and not exists (select from job j where j.tenant_id = :t and j.payload ->> 'deletion' = :deletion)""")
_CLOSE_ALL = parse_statement("update deletion set finished_at = now() where tenant_id = :t and finished_at is null")
_LIST_PURGED_TENANTS = parse_statement("""
select object_id from deletion
 where tenant_id = :t and kind = 'tenant' and finished_at > now() - :within::interval and object_id is not null""")
_REQUEUE_JOBS = parse_statement("""
with revived as (
  update job set state = 'ready', attempts = 0, error = null, run_at = now()
   where tenant_id = :t and payload ->> 'deletion' = :deletion and state = 'dead'
)
select count(*) as jobs from job where tenant_id = :t and payload ->> 'deletion' = :deletion""")

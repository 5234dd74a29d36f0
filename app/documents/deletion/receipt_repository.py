"""Queries for receipts of deletions. A receipt is closed by the last job of its deletion."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import select

from app.db.models.ingestion_state import DeletionRow
from app.db.session import Session
from app.db.statements import parse_statement


class ReceiptRepository:
    """Queries for receipts of one tenant. The receipt of a tenant's deletion belongs to the system tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def get(self, deletion_id: UUID) -> DeletionRow | None:
        """Return the receipt of a deletion."""
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id, DeletionRow.id == deletion_id)
        return await self.session.scalar(query)

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

"""Receipts of deletions: read, told what is left, and closed with the last job that works for them."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import select

from app.db.models.ingestion_state import DeletionRow
from app.db.session import Session
from app.db.statements import parse_statement


class ReceiptRepository:
    """Queries in one tenant; a tenant's own receipt is the system tenant's."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def get(self, deletion_id: UUID) -> DeletionRow | None:
        """The receipt."""
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id, DeletionRow.id == deletion_id)
        return await self.session.scalar(query)

    async def lock(self, deletion_id: UUID) -> DeletionRow | None:
        """The same, kept from every other change until the transaction ends."""
        query = select(DeletionRow).where(DeletionRow.tenant_id == self.tenant_id, DeletionRow.id == deletion_id)
        return await self.session.scalar(query.with_for_update())

    async def finish(self, deletion_id: UUID, job_id: UUID) -> None:
        """What this job had to do is done, and nothing of it is left; where it was the last one, so is everything.

        The job goes here, under the lock of the receipt, so that of the last two exactly one sees that it is the last.
        """
        values = {"t": self.tenant_id, "id": deletion_id, "job": job_id, "deletion": str(deletion_id)}
        await self.session.fetch_rows(_REMOVE_JOB, values)
        await self.session.fetch_rows(_FINISH, values)

    async def record_residue(self, deletion_id: UUID, remaining: Mapping[str, int]) -> None:
        """What is left, beside what was told by the jobs before."""
        values = {"t": self.tenant_id, "id": deletion_id, "remaining": json.dumps(dict(remaining))}
        await self.session.fetch_rows(_RECORD_RESIDUE, values)

    async def add_stored_file_count(self, deletion_id: UUID, stored_file_count: int) -> None:
        """So many more of its documents were made of a file that is kept."""
        if stored_file_count:
            await self.session.fetch_rows(
                _ADD_STORED_FILE_COUNT, {"t": self.tenant_id, "id": deletion_id, "more": stored_file_count}
            )

    async def record_sql_views(self, deletion_id: UUID, sql_view_ids: Sequence[UUID]) -> None:
        """Keep the ids of SQL views whose database roles have to go before the receipt is closed."""
        values = {"t": self.tenant_id, "id": deletion_id, "sql_views": list(sql_view_ids)}
        await self.session.fetch_rows(_RECORD_SQL_VIEWS, values)

    async def close_all(self) -> None:
        """For a tenant of which nothing is left: what its earlier deletions had to do is done."""
        await self.session.fetch_rows(_CLOSE_ALL, {"t": self.tenant_id})

    async def list_purged_tenants(self, *, within: timedelta) -> list[UUID]:
        """The tenants whose deletion has come to its end lately; the system tenant has their receipts."""
        rows = await self.session.fetch_rows(_LIST_PURGED_TENANTS, {"t": self.tenant_id, "within": within})
        return [row["object_id"] for row in rows]

    async def requeue_jobs(self, deletion_id: UUID) -> bool:
        """Have its jobs that were given up tried again; False where no job works for it."""
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

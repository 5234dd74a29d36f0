"""SQL of the list of jobs. The database function sees all tenants if the transaction has no tenant."""

from datetime import datetime
from typing import Any
from uuid import UUID

from app.db.page_counts import count_rows
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.job_control.types import JobFilters, ListedJob
from app.jobs.waiting_reasons import MAX_WORKER_SILENCE, WaitingReason, find_postponement_reason, find_waiting_reason

_COLUMNS = (
    "tenant_id", "id", "kind", "state", "document_id", "kb_id", "stage", "attempts", "max_attempts", "code", "message",
    "created_at", "run_at",
)  # fmt: skip


class JobRepository:
    """Queries for jobs, in the scope of the transaction: one tenant, or all tenants for the operator.

    ``tenant_concurrency`` is the maximum number of running jobs of a tenant without a separate limit.
    """

    def __init__(self, session: Session, *, tenant_concurrency: int) -> None:
        self.session = session
        self.tenant_concurrency = tenant_concurrency

    async def list_jobs(
        self,
        filters: JobFilters,
        *,
        job_id: UUID | None = None,
        after: tuple[datetime, UUID] | None = None,
        limit: int,
    ) -> list[ListedJob]:
        """Return a page of jobs, newest first.

        Args:
            filters: Conditions on the jobs.
            job_id: Only this job.
            after: Creation time and id of the last job of the previous page; None for the first page.
            limit: Maximum number of jobs.
        """
        after_time, after_id = after or (None, None)
        page = {"state": filters.state, "after_time": after_time, "after_id": after_id, "limit": limit}
        values = {**_build_params(filters, job_id), **page}
        await count_rows(self.session, limit, _COUNT, values)
        rows = await self.session.fetch_rows(_LIST, values)
        has_workers = bool(rows) and await self._has_workers()
        return [self._to_listed_job(row, has_workers=has_workers) for row in rows]

    async def retry(self, filters: JobFilters, *, job_id: UUID | None = None, limit: int) -> list[UUID]:
        """Make failed jobs due now, the oldest first. ``state`` of the filters is ignored.

        Args:
            filters: Conditions on the jobs.
            job_id: Only this job. The call then waits for a transaction that holds the job's document.
            limit: Maximum number of jobs.

        Returns:
            The ids of the jobs.
        """
        rows = await self.session.fetch_rows(_RETRY, {**_build_params(filters, job_id), "limit": limit})
        return [row["id"] for row in rows]

    async def _has_workers(self) -> bool:
        row = await self.session.fetch_row(_COUNT_WORKERS, {"within": MAX_WORKER_SILENCE})
        return bool(row and row["workers"])

    def _to_listed_job(self, row: Record, *, has_workers: bool) -> ListedJob:
        waiting_for: WaitingReason | None = None
        if row["state"] == "waiting":
            limit = self.tenant_concurrency if row["max_running"] is None else row["max_running"]
            waiting_for = find_waiting_reason(has_workers=has_workers, running=row["running"], max_running=limit)
        elif row["state"] == "postponed":
            waiting_for = find_postponement_reason(row["code"])
        return ListedJob(**{name: row[name] for name in _COLUMNS}, waiting_for=waiting_for)


def _build_params(filters: JobFilters, job_id: UUID | None) -> dict[str, Any]:
    return {
        "id": job_id,
        "kind": filters.kind,
        "code": filters.error_code,
        "document": filters.document_id,
        "kb": filters.kb_id,
    }


_LIST = parse_statement(
    "select * from list_jobs(:id, :state, :kind, :code, :document, :kb, :after_time, :after_id, :limit)"
)
_COUNT = parse_statement(
    "select count(*) as total from list_jobs(:id, :state, :kind, :code, :document, :kb, null, null, null)"
)
_RETRY = parse_statement("select id from retry_jobs(:id, :kind, :code, :document, :kb, :limit)")
_COUNT_WORKERS = parse_statement("select count_workers(:within::interval) as workers")

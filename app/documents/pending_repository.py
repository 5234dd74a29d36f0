"""Reasons why queued documents wait, derived from their jobs on request."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.orm.attributes import set_committed_value

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.jobs.waiting_reasons import (
    MAX_WORKER_SILENCE,
    WaitingReason,
    find_postponement_reason,
    find_waiting_reason,
)

# An idle worker takes a document within moments, so no reason is shown for a shorter wait.
MIN_WAIT = timedelta(seconds=3)


class WaitingRepository:
    """Queries about waiting jobs of one tenant; documents of other tenants are not found.

    ``tenant_concurrency`` is the maximum number of running jobs of a tenant without a limit in ``tenant_queue``.
    """

    def __init__(self, session: Session, tenant_id: UUID, *, tenant_concurrency: int) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.tenant_concurrency = tenant_concurrency

    async def add_waiting_reasons(self, documents: Sequence[DocumentRow]) -> None:
        """Set ``waiting_for`` in the ``progress`` of documents that have been queued for longer than ``MIN_WAIT``.

        Args:
            documents: Rows to complete. The reason is set on these objects only; it is not stored.
        """
        queued_before = datetime.now(UTC) - MIN_WAIT
        waiting = {
            queued.id: queued for queued in documents if queued.status == "queued" and queued.updated_at < queued_before
        }
        if not waiting:
            return
        values = {"t": self.tenant_id, "ids": list(waiting), "within": MAX_WORKER_SILENCE}
        for row in await self.session.fetch_rows(_JOBS, values):
            document = waiting[row["document_id"]]
            reason = self._find_reason(row)
            set_committed_value(document, "progress", {**(document.progress or {}), "waiting_for": reason})

    def _find_reason(self, row: Record) -> WaitingReason:
        if row["is_paused"]:
            return find_postponement_reason(row["code"])
        limit = self.tenant_concurrency if row["max_running"] is None else row["max_running"]
        return find_waiting_reason(has_workers=bool(row["workers"]), running=row["running"], max_running=limit)


_JOBS = parse_statement("""
select j.document_id, j.run_at > now() as is_paused, j.error ->> 'code' as code,
       count_workers(:within::interval) as workers,
       (select l.max_running from tenant_queue l where l.tenant_id = :t) as max_running,
       (select count(*) from job r where r.tenant_id = :t and r.state = 'running' and r.kind <> 'send_webhook'
           and r.every is null) as running
  from job j
 where j.tenant_id = :t and j.document_id = any(:ids::uuid[]) and j.kind = 'ingest_document' and j.state = 'ready'""")

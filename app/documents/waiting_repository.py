"""What queued documents wait for: read from their jobs when somebody looks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy.orm.attributes import set_committed_value

from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import Record, statement

WaitingFor = Literal[
    "worker", "tenant_limit", "rate_limit", "embedding_endpoint", "vision_endpoint", "object_store", "retry"
]
# A document that has waited for less is about to be taken.
LEAST = timedelta(seconds=3)
WORKER_SILENCE = timedelta(seconds=60)
_BY_CODE: dict[str, WaitingFor] = {
    "embedding_unavailable": "embedding_endpoint",
    "vision_unavailable": "vision_endpoint",
    "object_store_unavailable": "object_store",
    "tokens_spent": "rate_limit",
    "quota_exceeded": "rate_limit",
}
REASONS: frozenset[str] = frozenset(get_args(WaitingFor))


class WaitingRepository:
    """Queries in one tenant; of documents of another tenant nothing is found."""

    def __init__(self, session: Session, tenant_id: UUID, *, tenant_concurrency: int) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.tenant_concurrency = tenant_concurrency

    async def explain(self, documents: Sequence[Document]) -> None:
        """Put into ``progress`` what documents wait for that have been queued for some seconds; nothing is stored."""
        late = datetime.now(UTC) - LEAST
        waiting = {one.id: one for one in documents if one.status == "queued" and one.updated_at < late}
        if not waiting:
            return
        values = {"t": self.tenant_id, "ids": list(waiting), "within": WORKER_SILENCE}
        for row in await self.session.rows(_JOBS, values):
            document = waiting[row["document_id"]]
            reason = self._reason(row)
            set_committed_value(document, "progress", {**(document.progress or {}), "waiting_for": reason})

    def _reason(self, row: Record) -> WaitingFor:
        if row["rests"]:
            return _BY_CODE.get(row["code"] or "", "retry")
        if not row["workers"]:
            return "worker"
        limit = self.tenant_concurrency if row["max_running"] is None else row["max_running"]
        return "tenant_limit" if row["running"] >= limit else "worker"


_JOBS = statement("""
select j.document_id, j.run_at > now() as rests, j.error ->> 'code' as code,
       count_workers(:within::interval) as workers,
       (select l.max_running from job_lane l where l.tenant_id = :t) as max_running,
       (select count(*) from job r where r.tenant_id = :t and r.state = 'running' and r.kind <> 'send_webhook'
           and r.every is null) as running
  from job j
 where j.tenant_id = :t and j.document_id = any(:ids::uuid[]) and j.kind = 'ingest_document' and j.state = 'ready'""")

"""Queries about the generations of knowledge bases: the search indexes that are being built, and those that were."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import SearchIndex
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.knowledge_bases.types import Chunking, Generation, ReindexProgress

# Of a job that nobody knows any more: it was lost together with what it would have said.
_LOST_JOB_ERROR = {"code": "internal", "message": "Something went wrong inside Carrel."}
# Of one that workers hand on to each other, which say no more than that.
_NO_MODEL_MESSAGE = "No worker has been found yet that has the embedding model."


class GenerationRepository:
    """Queries in one tenant. Whoever changes a generation holds the knowledge base's row, or is the job that builds it.

    The columns of a search index that change here are no key: who adds chunks goes on beside that.
    """

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_building(self, kb_id: UUID) -> Generation | None:
        """The one of this knowledge base."""
        row = await self.session.fetch_row(_FIND_BUILDING, {"tenant": self.tenant_id, "kb": kb_id})
        return None if row is None else _parse_generation(row)

    async def find(self, index_id: UUID) -> Generation | None:
        """The one with this id, as long as it is being built."""
        row = await self.session.fetch_row(_FIND_BY_ID, {"tenant": self.tenant_id, "index": index_id})
        return None if row is None else _parse_generation(row)

    async def add(self, index: SearchIndex) -> None:
        """Insert one; it has all documents before it."""
        self.session.add(index)
        await self.session.flush()

    async def find_rollback_target(self, kb_id: UUID, *, max_age: timedelta) -> tuple[UUID, dict[str, Any]] | None:
        """The one that was live before, with its identity; None where that is longer ago than the window.

        Until the transaction ends nobody begins to drop it.
        """
        values = {"tenant": self.tenant_id, "kb": kb_id, "window": max_age}
        row = await self.session.fetch_row(_FIND_ROLLBACK_TARGET, values)
        return None if row is None else (row["id"], row["identity"])

    async def begin_build(self, index_id: UUID) -> None:
        """Count the documents that it is about to have."""
        await self.session.fetch_rows(_BEGIN_BUILD, {"tenant": self.tenant_id, "index": index_id})

    async def has_active_job(self, generation: Generation) -> bool:
        """Whether its job waits or runs, or will be tried again."""
        values = {"tenant": self.tenant_id, "job": generation.job_id}
        return generation.error is None and await self.session.fetch_row(_FIND_ACTIVE_JOB, values) is not None

    async def assign_job(self, index_id: UUID, job_id: UUID) -> None:
        """From now on this job builds it, whatever stopped it before; a dead letter of that is done with."""
        await self.session.fetch_rows(_ASSIGN_JOB, {"tenant": self.tenant_id, "index": index_id, "job": job_id})

    async def transfer_job(self, generation: Generation, job_id: UUID) -> None:
        """From now on this job builds it, if the one of ``generation`` still does."""
        values = {"tenant": self.tenant_id, "index": generation.id, "before": generation.job_id, "job": job_id}
        await self.session.fetch_rows(_TRANSFER_JOB, values)

    async def record_progress(self, index_id: UUID, *, done: int, total: int) -> None:
        """How far it is."""
        values = {"tenant": self.tenant_id, "index": index_id, "done": done, "total": total}
        await self.session.fetch_rows(_RECORD_PROGRESS, values)

    async def record_error(self, generation: Generation, error: Mapping[str, Any]) -> None:
        """It cannot be built as it is, for this reason; nothing is said where another job builds it by now."""
        values = {"tenant": self.tenant_id, "index": generation.id, "job": generation.job_id}
        await self.session.fetch_rows(_RECORD_ERROR, {**values, "error": json.dumps(error)})

    async def cancel(self, index_id: UUID) -> None:
        """It is built no further; one that was never live is wanted by nobody then."""
        await self.session.fetch_rows(_CANCEL, {"tenant": self.tenant_id, "index": index_id})

    async def load_reindex_states(
        self, kb_ids: Sequence[UUID]
    ) -> dict[UUID, tuple[ReindexProgress | None, datetime | None]]:
        """By knowledge base: how far its next generation is, and when the last one was retired that is still whole."""
        states: dict[UUID, tuple[ReindexProgress | None, datetime | None]] = {}
        for row in await self.session.fetch_rows(_LOAD_REINDEX_STATES, {"tenant": self.tenant_id, "kbs": list(kb_ids)}):
            reindex_progress, retired_at = states.get(row["kb_id"], (None, None))
            if row["state"] == "building":
                reindex_progress = _parse_reindex_progress(row)
            # The last comes last; while it is built again, there is none to go back to.
            if row["retired_at"] is not None:
                retired_at = row["retired_at"] if row["state"] == "retired" else None
            states[row["kb_id"]] = reindex_progress, retired_at
        return states


def _parse_generation(row: Record) -> Generation:
    settings = row["settings"]
    return Generation(
        id=row["id"],
        kb_id=row["kb_id"],
        identity=row["identity"],
        dim=row["dim"],
        avgdl=row["avgdl"],
        chunking=Chunking(**settings["chunking"]),
        language=settings["language"],
        error=row["error"],
        job_id=row["job_id"],
        was_live=row["was_live"],
    )


def _parse_reindex_progress(row: Record) -> ReindexProgress:
    error, last_error = row["error"], row["job_error"]
    if error is None and row["job_state"] in (None, "dead"):
        error = last_error or _LOST_JOB_ERROR
    return ReindexProgress(
        identity=row["identity"],
        dim=row["dim"],
        chunking=row["settings"]["chunking"],
        language=row["settings"]["language"],
        done=row["documents_done"],
        total=row["documents_total"],
        started_at=row["started_at"],
        error=None if error is None else {"document": None, **error},
        last_error={"message": _NO_MODEL_MESSAGE, **last_error} if last_error and error is None else None,
    )


_SELECT_BUILDING = """
select id, kb_id, identity, dim, avgdl, settings, error, job_id, retired_at is not null as was_live from search_index
 where tenant_id = :tenant and state = 'building'"""
_FIND_BUILDING = parse_statement(f"{_SELECT_BUILDING} and kb_id = :kb")
_FIND_BY_ID = parse_statement(f"{_SELECT_BUILDING} and id = :index")
_FIND_ROLLBACK_TARGET = parse_statement("""
select id, identity from search_index
 where tenant_id = :tenant and kb_id = :kb and state = 'retired' and retired_at > now() - :window::interval
 order by retired_at desc limit 1 for no key update""")
_BEGIN_BUILD = parse_statement("""
update search_index i
   set state = 'building', started_at = now(), error = null, job_id = null, documents_done = 0,
       documents_total = (select count(*) from document d
                           where d.tenant_id = :tenant and d.kb_id = i.kb_id and d.live_version is not null)
 where i.tenant_id = :tenant and i.id = :index""")
_FIND_ACTIVE_JOB = parse_statement("select 1 from job where tenant_id = :tenant and id = :job and state <> 'dead'")
_ASSIGN_JOB = parse_statement("""
with dead as (
  delete from job j using search_index i
   where i.tenant_id = :tenant and i.id = :index and j.tenant_id = :tenant and j.id = i.job_id and j.state = 'dead'
)
update search_index set job_id = :job, error = null where tenant_id = :tenant and id = :index and state = 'building'""")
_TRANSFER_JOB = parse_statement("""
update search_index set job_id = :job
 where tenant_id = :tenant and id = :index and state = 'building' and job_id = :before""")
_RECORD_PROGRESS = parse_statement("""
update search_index set documents_done = :done, documents_total = :total
 where tenant_id = :tenant and id = :index and state = 'building'""")
_RECORD_ERROR = parse_statement("""
update search_index set error = :error::jsonb
 where tenant_id = :tenant and id = :index and state = 'building' and job_id = :job""")
_CANCEL = parse_statement("""
update search_index set state = 'retired', error = null, job_id = null
 where tenant_id = :tenant and id = :index and state = 'building'""")
_LOAD_REINDEX_STATES = parse_statement("""
select i.kb_id, i.state, i.identity, i.dim, i.settings, i.documents_done, i.documents_total, i.started_at, i.retired_at,
       i.error, j.state as job_state, j.error as job_error
  from search_index i left join job j on j.tenant_id = i.tenant_id and j.id = i.job_id
 where i.tenant_id = :tenant and i.kb_id = any(:kbs::uuid[])
   and (i.state = 'building' or i.state = 'retired' and i.retired_at is not null)
 order by i.retired_at""")

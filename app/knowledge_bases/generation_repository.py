"""Queries for generations of knowledge bases: search indexes that are being built, and former search indexes."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from app.db.models.tenant_data import SearchIndex
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.knowledge_bases.types import Chunking, Generation, ReindexProgress

# The error of a generation whose job no longer exists, so that its real error is lost.
_LOST_JOB_ERROR = {"code": "internal", "message": "The reindex job was lost. Start the reindex again."}
# The error of a job that workers without the model return to the queue. The job itself has no message.
_NO_MODEL_MESSAGE = "No worker has the embedding model yet. Start a worker that has it."


class GenerationRepository:
    """Queries for generations of one tenant.

    A caller that changes a generation has locked the knowledge base, or is the job that builds the generation. The
    changed columns of a search index are no key columns, so parallel inserts of chunks do not wait.
    """

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_building(self, kb_id: UUID) -> Generation | None:
        """Return the generation of a knowledge base that is being built, or None."""
        row = await self.session.fetch_row(_FIND_BUILDING, {"tenant": self.tenant_id, "kb": kb_id})
        return None if row is None else _parse_generation(row)

    async def find(self, index_id: UUID) -> Generation | None:
        """Return the generation with this id if it is being built, otherwise None."""
        row = await self.session.fetch_row(_FIND_BY_ID, {"tenant": self.tenant_id, "index": index_id})
        return None if row is None else _parse_generation(row)

    async def add(self, index: SearchIndex) -> None:
        """Insert a generation. It contains no documents yet."""
        self.session.add(index)
        await self.session.flush()

    async def find_rollback_target(self, kb_id: UUID, *, max_age: timedelta) -> tuple[UUID, dict[str, Any]] | None:
        """Return the former live search index of a knowledge base, and lock it so that no job drops it.

        Args:
            kb_id: The knowledge base.
            max_age: The maximum time since the search index was live.

        Returns:
            The id and the identity (model and settings) of the search index, or None if there is no such search index.
        """
        values = {"tenant": self.tenant_id, "kb": kb_id, "window": max_age}
        row = await self.session.fetch_row(_FIND_ROLLBACK_TARGET, values)
        return None if row is None else (row["id"], row["identity"])

    async def begin_build(self, index_id: UUID) -> None:
        """Set a search index to ``building`` and count the documents that it will contain."""
        await self.session.fetch_rows(_BEGIN_BUILD, {"tenant": self.tenant_id, "index": index_id})

    async def has_active_job(self, generation: Generation) -> bool:
        """Return whether the generation's job waits, runs or will be tried again."""
        values = {"tenant": self.tenant_id, "job": generation.job_id}
        return generation.error is None and await self.session.fetch_row(_FIND_ACTIVE_JOB, values) is not None

    async def assign_job(self, index_id: UUID, job_id: UUID) -> None:
        """Assign a new job to a generation, clear its error, and delete its former job if that has failed."""
        await self.session.fetch_rows(_ASSIGN_JOB, {"tenant": self.tenant_id, "index": index_id, "job": job_id})

    async def transfer_job(self, generation: Generation, job_id: UUID) -> None:
        """Assign a new job to a generation if its present job is still the job of ``generation``."""
        values = {"tenant": self.tenant_id, "index": generation.id, "before": generation.job_id, "job": job_id}
        await self.session.fetch_rows(_TRANSFER_JOB, values)

    async def record_progress(self, index_id: UUID, *, done: int, total: int) -> None:
        """Record the number of processed documents and the total."""
        values = {"tenant": self.tenant_id, "index": index_id, "done": done, "total": total}
        await self.session.fetch_rows(_RECORD_PROGRESS, values)

    async def record_error(self, generation: Generation, error: Mapping[str, Any]) -> None:
        """Record the reason why a generation cannot be built, unless another job builds it now."""
        values = {"tenant": self.tenant_id, "index": generation.id, "job": generation.job_id}
        await self.session.fetch_rows(_RECORD_ERROR, {**values, "error": json.dumps(error)})

    async def cancel(self, index_id: UUID) -> None:
        """Stop the build of a generation. Maintenance drops it, unless it was live before."""
        await self.session.fetch_rows(_CANCEL, {"tenant": self.tenant_id, "index": index_id})

    async def load_reindex_states(
        self, kb_ids: Sequence[UUID]
    ) -> dict[UUID, tuple[ReindexProgress | None, datetime | None]]:
        """Return the reindex state of knowledge bases.

        Args:
            kb_ids: The knowledge bases.

        Returns:
            By knowledge base: the progress of the next generation, or None; and the time at which the newest former
            search index was retired, or None.
        """
        states: dict[UUID, tuple[ReindexProgress | None, datetime | None]] = {}
        for row in await self.session.fetch_rows(_LOAD_REINDEX_STATES, {"tenant": self.tenant_id, "kbs": list(kb_ids)}):
            reindex_progress, retired_at = states.get(row["kb_id"], (None, None))
            if row["state"] == "building":
                reindex_progress = _parse_reindex_progress(row)
            # Rows are ordered by time, so the newest former search index remains. While a job builds that index again,
            # no rollback is possible.
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
        graph=row["graph"],
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
select id, kb_id, identity, dim, avgdl, settings, error, job_id, retired_at is not null as was_live, graph
  from search_index
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

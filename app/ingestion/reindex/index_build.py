"""The job that builds the next generation of a knowledge base's search index, slice by slice, and swaps it in."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import TenantDatabase
from app.errors import AppError, JobPostponed, UnavailableError
from app.ids import encode_id
from app.ingestion.reindex.document_build import DocumentRebuilder
from app.ingestion.reindex.repository import PendingDocuments, RebuildingRepository
from app.ingestion.reindex.swap_repository import SwapRepository
from app.jobs.queue import JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.reindex_service import REINDEX_JOB
from app.knowledge_bases.types import Generation, IndexMismatch
from app.logging import get_logger
from app.sql_views.service import reconcile_after_swap

logger = get_logger(__name__)

# A job works for so long and then goes to the end of the queue, so that a large knowledge base is in nobody's way.
SLICE_SECONDS = 30.0
PROGRESS_INTERVAL_SECONDS = 1.0
# Before it is tried again, where somebody is in the way of the end, and where another's vector index is built.
RETRY_DELAY_SECONDS = 1.0
BUILD_RETRY_DELAY_SECONDS = 5.0
# Shorter than what Postgres takes to see that two wait for each other.
LOCK_TIMEOUT_SECONDS = 0.7
# SQLSTATE: no lock in time, and a deadlock.
LOCK_CONFLICT_SQLSTATES = ("55P03", "40P01")


class BuildInProgress(JobPostponed):
    """Another search index gets its vector index, one at a time in a database; this one has its turn after that."""

    code = "build_in_progress"


@dataclass(frozen=True, slots=True)
class Reindexer:
    """Builds generations. ``prepare_index`` gives a whole one what makes it quick; False where that has to wait."""

    rebuilder: DocumentRebuilder
    queue: JobQueue
    prepare_index: Callable[[UUID, UUID], Awaitable[bool]]
    slice_seconds: float = SLICE_SECONDS

    async def run_slice(self, db: TenantDatabase, index_id: UUID, job_id: UUID) -> None:
        """A slice of it; the next job goes on where this one ends, and so does this one after a crash.

        Returns quietly where the generation is not built any more, or by another job. Why a document cannot be built is
        told in the generation; the live one goes on. Raises IndexMismatch where this worker does not have the model,
        BuildInProgress, and UnavailableError for what may be retried.
        """
        async with db.transaction() as session:
            generation = await GenerationRepository(session, db.tenant_id).find(index_id)
        if generation is None or generation.job_id != job_id or generation.error is not None:
            return
        deadline = time.monotonic() + self.slice_seconds
        while True:
            pending = await self._find_pending(db, generation)
            if pending is None:
                return
            if pending.document_ids:
                should_continue = await self._build_documents(db, generation, pending, deadline)
            else:
                should_continue = not await self._try_finish(db, generation)
            if not should_continue:
                return
            if time.monotonic() > deadline:
                await self._enqueue_next_slice(db, generation)
                return

    async def _find_pending(self, db: TenantDatabase, generation: Generation) -> PendingDocuments | None:
        """What is missing; None where it is not built any more, or by another job."""
        async with db.transaction() as session:
            current = await GenerationRepository(session, db.tenant_id).find(generation.id)
            if current is None or current.job_id != generation.job_id:
                return None
            return await RebuildingRepository(session, db.tenant_id, generation.kb_id).find_pending_documents(
                generation.id
            )

    async def _build_documents(
        self, db: TenantDatabase, generation: Generation, pending: PendingDocuments, deadline: float
    ) -> bool:
        """Build what is missing, one at least, until the time is over; False where one cannot be built."""
        done, last_reported = pending.total - len(pending.document_ids), 0.0
        for document_id in pending.document_ids:
            if time.monotonic() - last_reported > PROGRESS_INTERVAL_SECONDS:
                last_reported = time.monotonic()
                await self._report_progress(db, generation, done, pending.total)
            try:
                await self.rebuilder.rebuild(db, generation, document_id)
            except (UnavailableError, IndexMismatch):
                raise
            except AppError as exc:
                await self._record_failure(db, generation, document_id, exc)
                return False
            done += 1
            if time.monotonic() > deadline:
                break
        await self._report_progress(db, generation, done, pending.total)
        return True

    async def _report_progress(self, db: TenantDatabase, generation: Generation, done: int, total: int) -> None:
        async with db.transaction() as session:
            await GenerationRepository(session, db.tenant_id).record_progress(generation.id, done=done, total=total)

    async def _record_failure(
        self, db: TenantDatabase, generation: Generation, document_id: UUID, reason: AppError
    ) -> None:
        error = {"code": reason.code, "message": reason.message, "document": encode_id("doc", document_id)}
        async with db.transaction() as session:
            await GenerationRepository(session, db.tenant_id).record_error(generation, error)
        logger.warning("reindex.stopped", index=str(generation.id), document=str(document_id), code=reason.code)

    async def _try_finish(self, db: TenantDatabase, generation: Generation) -> bool:
        """Whether nothing is left to do: it is live now, or not wanted any more.

        Another's build may take an hour: whoever waits for that is in nobody's place meanwhile.
        """
        try:
            if not await self.prepare_index(db.tenant_id, generation.id):
                raise BuildInProgress(datetime.now(UTC) + timedelta(seconds=BUILD_RETRY_DELAY_SECONDS))
            return await self._swap_indexes(db, generation)
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) not in LOCK_CONFLICT_SQLSTATES:
                raise
        await asyncio.sleep(RETRY_DELAY_SECONDS)
        return False

    async def _swap_indexes(self, db: TenantDatabase, generation: Generation) -> bool:
        """False where a document has come in meanwhile that it does not have."""
        started = time.monotonic()
        async with db.transaction() as session:
            repository = SwapRepository(session, db.tenant_id, generation)
            if not await repository.acquire_locks(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                return True
            if await repository.find_pending_documents():
                return False
            await repository.swap()
            await reconcile_after_swap(session, self.queue, db.tenant_id, generation.kb_id)
        seconds = round(time.monotonic() - started, 3)
        logger.info("reindex.done", index=str(generation.id), knowledge_base=str(generation.kb_id), seconds=seconds)
        return True

    async def _enqueue_next_slice(self, db: TenantDatabase, generation: Generation) -> None:
        """To a job behind all that waits; where this one's turn is over already, that one does nothing."""
        async with db.transaction() as session:
            job_id = await self.queue.enqueue(
                session, REINDEX_JOB, tenant_id=db.tenant_id, payload={"index": str(generation.id)}
            )
            await GenerationRepository(session, db.tenant_id).transfer_job(generation, job_id)

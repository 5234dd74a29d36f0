"""The job that builds the next generation of a search index in time slices, and makes it the live one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import TenantDatabase
from app.enrichment.queue import enqueue_pending
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

SLICE_SECONDS = 30.0
"""Seconds that a job works before it goes to the end of the queue, so that a large knowledge base delays no one."""

PROGRESS_INTERVAL_SECONDS = 1.0
RETRY_DELAY_SECONDS = 1.0
"""Seconds before the next try if another transaction holds a lock that the swap needs."""

BUILD_RETRY_DELAY_SECONDS = 5.0
"""Seconds before the next try if the vector index of another search index is being built."""

LOCK_TIMEOUT_SECONDS = 0.7
"""Maximum seconds that the swap waits for a lock; Postgres detects a deadlock after one second."""

LOCK_CONFLICT_SQLSTATES = ("55P03", "40P01")
"""SQLSTATE codes of a lock timeout and of a deadlock."""


class BuildInProgress(JobPostponed):
    """The vector index of another search index is being built, and a database builds one at a time; wait for it."""

    code = "build_in_progress"


@dataclass(frozen=True, slots=True)
class Reindexer:
    """Builder of the next generation of a search index.

    Attributes:
        rebuilder: Builder that adds a document.
        queue: Job queue.
        prepare_index: Builds the vector index and the filter indexes of a complete generation, by tenant and generation
            id. It returns False if it must wait for another build.
        slice_seconds: Seconds of work of one job.
    """

    rebuilder: DocumentRebuilder
    queue: JobQueue
    prepare_index: Callable[[UUID, UUID], Awaitable[bool]]
    slice_seconds: float = SLICE_SECONDS

    async def run_slice(self, db: TenantDatabase, index_id: UUID, job_id: UUID) -> None:
        """Add documents to a generation for one time slice, and swap the generation in when it is complete.

        If the slice ends first, a new job continues the build; after a crash the same job continues it. The call does
        nothing if the build was cancelled, or belongs to another job. If a document cannot be added, the error is
        recorded in the generation, the build stops, and the live generation stays.

        Args:
            db: Database of the tenant.
            index_id: The generation.
            job_id: The job that calls.

        Raises:
            IndexMismatch: The embedding model of the generation is not configured on this worker.
            BuildInProgress: The vector index of another search index is being built.
            UnavailableError: A model, the object store or the database does not answer; a retry may help.
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
        """Find the missing documents. Return None if this job no longer builds the generation."""
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
        """Add missing documents, at least one, until the deadline. Return False if a document cannot be added."""
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
        """Try to make the generation the live one. Return True if it is, or if the build was cancelled.

        The vector index of another search index may take an hour to build. This job then ends, and frees its slot.
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
        """Make the generation the live one. Return False if the generation lacks a new document."""
        started = time.monotonic()
        async with db.transaction() as session:
            repository = SwapRepository(session, db.tenant_id, generation)
            if not await repository.acquire_locks(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                return True
            if await repository.find_pending_documents():
                return False
            await repository.swap()
            await reconcile_after_swap(session, self.queue, db.tenant_id, generation.kb_id)
            await enqueue_pending(session, self.queue, tenant_id=db.tenant_id, kb_id=generation.kb_id)
        seconds = round(time.monotonic() - started, 3)
        logger.info("reindex.done", index=str(generation.id), knowledge_base=str(generation.kb_id), seconds=seconds)
        return True

    async def _enqueue_next_slice(self, db: TenantDatabase, generation: Generation) -> None:
        """Transfer the build to a new job at the end of the queue, which does nothing if the build was cancelled."""
        async with db.transaction() as session:
            job_id = await self.queue.enqueue(
                session, REINDEX_JOB, tenant_id=db.tenant_id, payload={"index": str(generation.id)}
            )
            await GenerationRepository(session, db.tenant_id).transfer_job(generation, job_id)

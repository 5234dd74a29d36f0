"""The job that builds the next generation of a knowledge base's search index, slice by slice, and swaps it in."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import TenantDatabase
from app.errors import AppError, Postponed, Unavailable
from app.ids import encode_id
from app.ingestion.rebuilding import DocumentRebuilder
from app.ingestion.rebuilding_repository import RebuildingRepository, Waiting
from app.ingestion.swap_repository import SwapRepository
from app.job_queue import JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.reindexing import REINDEX_JOB
from app.knowledge_bases.types import Generation, IndexMismatch
from app.logging import get_logger
from app.publications.service import follow_swap

logger = get_logger(__name__)

# A job works for so long and then goes to the end of the queue, so that a large knowledge base is in nobody's way.
SLICE_SECONDS = 30.0
TELL_SECONDS = 1.0
# Before it is tried again, where somebody is in the way of the end, and where another's vector index is built.
REST_SECONDS = 1.0
BUILD_REST_SECONDS = 5.0
# Shorter than what Postgres takes to see that two wait for each other.
LOCK_SECONDS = 0.7
# SQLSTATE: no lock in time, and a deadlock.
IN_THE_WAY = ("55P03", "40P01")


class BuildUnderWay(Postponed):
    """Another search index gets its vector index, one at a time in a database; this one has its turn after that."""

    code = "build_under_way"


@dataclass(frozen=True, slots=True)
class Reindexer:
    """Builds generations. ``prepare`` gives a whole one what makes it quick; False where that has to wait."""

    rebuilder: DocumentRebuilder
    queue: JobQueue
    prepare: Callable[[UUID, UUID], Awaitable[bool]]
    slice_seconds: float = SLICE_SECONDS

    async def run(self, db: TenantDatabase, index_id: UUID, job_id: UUID) -> None:
        """A slice of it; the next job goes on where this one ends, and so does this one after a crash.

        Returns quietly where the generation is not built any more, or by another job. Why a document cannot be built is
        told in the generation; the live one goes on. Raises IndexMismatch where this worker does not have the model,
        BuildUnderWay, and Unavailable for what may be retried.
        """
        async with db.transaction() as session:
            generation = await GenerationRepository(session, db.tenant_id).find(index_id)
        if generation is None or generation.job_id != job_id or generation.error is not None:
            return
        end = time.monotonic() + self.slice_seconds
        while True:
            waiting = await self._waiting(db, generation)
            if waiting is None:
                return
            if waiting.documents:
                goes_on = await self._build(db, generation, waiting, end)
            else:
                goes_on = not await self._finished(db, generation)
            if not goes_on:
                return
            if time.monotonic() > end:
                await self._hand_on(db, generation)
                return

    async def _waiting(self, db: TenantDatabase, generation: Generation) -> Waiting | None:
        """What is missing; None where it is not built any more, or by another job."""
        async with db.transaction() as session:
            now = await GenerationRepository(session, db.tenant_id).find(generation.id)
            if now is None or now.job_id != generation.job_id:
                return None
            return await RebuildingRepository(session, db.tenant_id, generation.kb_id).waiting(generation.id)

    async def _build(self, db: TenantDatabase, generation: Generation, waiting: Waiting, end: float) -> bool:
        """Build what is missing, one at least, until the time is over; False where one cannot be built."""
        done, told = waiting.total - len(waiting.documents), 0.0
        for document_id in waiting.documents:
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                await self._tell(db, generation, done, waiting.total)
            try:
                await self.rebuilder.rebuild(db, generation, document_id)
            except (Unavailable, IndexMismatch):
                raise
            except AppError as exc:
                await self._stop(db, generation, document_id, exc)
                return False
            done += 1
            if time.monotonic() > end:
                break
        await self._tell(db, generation, done, waiting.total)
        return True

    async def _tell(self, db: TenantDatabase, generation: Generation, done: int, total: int) -> None:
        async with db.transaction() as session:
            await GenerationRepository(session, db.tenant_id).tell(generation.id, done=done, total=total)

    async def _stop(self, db: TenantDatabase, generation: Generation, document_id: UUID, reason: AppError) -> None:
        error = {"code": reason.code, "message": reason.message, "document": encode_id("doc", document_id)}
        async with db.transaction() as session:
            await GenerationRepository(session, db.tenant_id).stop(generation, error)
        logger.warning("reindex.stopped", index=str(generation.id), document=str(document_id), code=reason.code)

    async def _finished(self, db: TenantDatabase, generation: Generation) -> bool:
        """Whether nothing is left to do: it is live now, or not wanted any more.

        Another's build may take an hour: whoever waits for that is in nobody's place meanwhile.
        """
        try:
            if not await self.prepare(db.tenant_id, generation.id):
                raise BuildUnderWay(datetime.now(UTC) + timedelta(seconds=BUILD_REST_SECONDS))
            return await self._swap(db, generation)
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) not in IN_THE_WAY:
                raise
        await asyncio.sleep(REST_SECONDS)
        return False

    async def _swap(self, db: TenantDatabase, generation: Generation) -> bool:
        """False where a document has come in meanwhile that it does not have."""
        started = time.monotonic()
        async with db.transaction() as session:
            repository = SwapRepository(session, db.tenant_id, generation)
            if not await repository.hold(seconds=LOCK_SECONDS):
                return True
            if await repository.waiting():
                return False
            await repository.swap()
            await follow_swap(session, self.queue, db.tenant_id, generation.kb_id)
        seconds = round(time.monotonic() - started, 3)
        logger.info("reindex.done", index=str(generation.id), knowledge_base=str(generation.kb_id), seconds=seconds)
        return True

    async def _hand_on(self, db: TenantDatabase, generation: Generation) -> None:
        """To a job behind all that waits; where this one's turn is over already, that one does nothing."""
        async with db.transaction() as session:
            job_id = await self.queue.enqueue(
                session, REINDEX_JOB, tenant_id=db.tenant_id, payload={"index": str(generation.id)}
            )
            await GenerationRepository(session, db.tenant_id).hand_on(generation, job_id)

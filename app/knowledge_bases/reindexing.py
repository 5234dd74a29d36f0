"""Index a knowledge base anew beside the live index: begin, cancel, and go back to the index of before."""

import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

from app.audit.types import Action, Event
from app.db.models.tenant_data import SearchIndex
from app.db.session import Session, TenantDatabase
from app.inference.embedding import Embedder
from app.job_queue import INTERACTIVE, JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.index_settings import check_chunking
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import (
    Generation,
    IndexMismatch,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    NothingToUndo,
    ReindexNotFound,
    ReindexUnderWay,
    ReindexWishes,
)

REINDEX_JOB = "reindex_knowledge_base"


@dataclass(frozen=True, slots=True)
class ReindexService:
    """What a tenant can do about the generations of a knowledge base; ``undo_window`` is how long the last is kept."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue
    undo_window: timedelta

    async def start(self, reference: str, wishes: ReindexWishes) -> KnowledgeBaseView:
        """Have a job build the next index; the same again goes on with one that has stopped.

        Raises KnowledgeBaseNotFound, ReindexUnderWay, InvalidInput for settings that are none, Forbidden.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self._lock(session, reference)
            wanted = self._wanted(kb, wishes)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.building(kb.row.id)
            if building is None:
                await repository.add(wanted)
                await repository.begin(wanted.id)
                await self._work_on(session, wanted.id)
                await self._record(session, Action.KNOWLEDGE_BASE_REINDEX, kb)
            elif not _same(wanted, building):
                raise ReindexUnderWay
            elif not await repository.is_worked_on(building):
                await self._work_on(session, building.id)
                await self._record(session, Action.KNOWLEDGE_BASE_REINDEX, kb)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).counted(kb, reader=None)

    async def undo(self, reference: str) -> KnowledgeBaseView:
        """Go back to the index of before: it gets what has come in since, then it is the live one again.

        The same again goes on with an undo that has stopped.

        Raises KnowledgeBaseNotFound, NothingToUndo, ReindexUnderWay, Forbidden; IndexMismatch where the model that made
        it is not configured any more.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self._lock(session, reference)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.building(kb.row.id)
            if building is None:
                last = await repository.last(kb.row.id, window=self.undo_window)
            elif building.was_live and not await repository.is_worked_on(building):
                last = building.id, building.identity
            else:
                raise ReindexUnderWay
            if last is None:
                raise NothingToUndo
            index_id, identity = last
            if self.knowledge_bases.settings.embedders.of(identity) is None:
                raise IndexMismatch(f"The model of the index of before, {identity['model']!r}, is not configured now.")
            if building is None:
                await repository.begin(index_id)
            await self._work_on(session, index_id)
            await self._record(session, Action.KNOWLEDGE_BASE_REINDEX_UNDO, kb)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).counted(kb, reader=None)

    async def cancel(self, reference: str) -> None:
        """Build no further; the periodic maintenance has a job drop what is built.

        An index that was live before is kept for as long as it would have been.

        Raises KnowledgeBaseNotFound, ReindexNotFound, Forbidden.
        """
        self.knowledge_bases.require_whole()
        async with self.db.transaction() as session:
            kb = await self._lock(session, reference)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.building(kb.row.id)
            if building is None:
                raise ReindexNotFound
            await repository.cancel(building.id)
            await self._record(session, Action.KNOWLEDGE_BASE_REINDEX_CANCEL, kb)

    async def _record(self, session: Session, action: Action, kb: KnowledgeBaseView) -> None:
        await self.knowledge_bases.record(session, Event(action, [kb.row.id], kb.row.id))

    async def _lock(self, session: Session, reference: str) -> KnowledgeBaseView:
        """As it is when nobody else changes it. Raises KnowledgeBaseNotFound, HoldsNoDocuments."""
        found = await self.knowledge_bases.find_in(session, reference)
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        await repository.lock(found.row.id)
        kb = await repository.find(found.row.id)
        if kb is None:
            raise KnowledgeBaseNotFound
        kb.require_documents()
        return kb

    def _wanted(self, kb: KnowledgeBaseView, wishes: ReindexWishes) -> SearchIndex:
        """The row of the next generation. Raises InvalidInput."""
        settings = self.knowledge_bases.settings
        embedder = self._embedder(kb, wishes)
        chunking, language = wishes.chunking or kb.chunking, wishes.language or kb.row.language
        check_chunking(chunking, settings, embedder)
        wanted = settings.new_index(self.db.tenant_id, kb.row.id, language, embedder.identity)
        wanted.state = "building"
        wanted.avgdl = kb.index.avgdl  # nearer than nothing, until its own is known
        wanted.settings = {"chunking": asdict(chunking), "language": language}
        return wanted

    def _embedder(self, kb: KnowledgeBaseView, wishes: ReindexWishes) -> Embedder:
        """Without a wish the model stays, if it is still there."""
        embedders = self.knowledge_bases.settings.embedders
        if wishes.model is None and wishes.dimensions is None:
            return embedders.of(kb.index.identity) or embedders.default
        return embedders.named(wishes.model, wishes.dimensions)

    async def _work_on(self, session: Session, index_id: UUID) -> None:
        """Somebody has asked for it: its first slice does not wait behind all that comes in as bulk."""
        job_id = await self.queue.enqueue(
            session,
            REINDEX_JOB,
            tenant_id=self.db.tenant_id,
            payload={"index": str(index_id)},
            priority=INTERACTIVE,
        )
        await GenerationRepository(session, self.db.tenant_id).give_job(index_id, job_id)


def _same(wanted: SearchIndex, building: Generation) -> bool:
    """As JSON: to Python true is 1."""
    pair = [[wanted.identity, wanted.settings], [building.identity, building.settings]]
    return len({json.dumps(each, sort_keys=True) for each in pair}) == 1

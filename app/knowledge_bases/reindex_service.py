"""Reindex of a knowledge base while its live search index stays in use: start, cancel and roll back."""

import json
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.models.tenant_data import SearchIndex
from app.db.session import Session, TenantDatabase
from app.inference.embedding import Embedder
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.index_settings import build_next_index, check_chunking, resolve_chunking
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import (
    Generation,
    IndexMismatch,
    KnowledgeBaseNotFound,
    KnowledgeBaseView,
    NothingToRollBack,
    ReindexInProgress,
    ReindexNotFound,
    ReindexOptions,
)

REINDEX_JOB = "reindex_knowledge_base"


@dataclass(frozen=True, slots=True)
class ReindexService:
    """Use cases of reindexing; ``rollback_window`` is the time for which a former search index is retained."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue
    rollback_window: timedelta

    async def start(self, reference: str, options: ReindexOptions) -> KnowledgeBaseView:
        """Start the build of the next generation by a job, or resume a stopped build with the same settings.

        Args:
            reference: Name or id of the knowledge base.
            options: The settings that change.

        Returns:
            The knowledge base with its reindex progress.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base searches an external service and stores no documents.
            ReindexInProgress: A generation with other settings is being built.
            InvalidInputError: The settings are not valid.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self._lock_knowledge_base(session, reference)
            new_index = self._build_index(kb, options)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.find_building(kb.row.id)
            if building is None:
                await start_build(session, self.queue, self.db.tenant_id, new_index)
                await self._record(session, AuditAction.KNOWLEDGE_BASE_REINDEX, kb)
            elif not _is_same_build(new_index, building):
                raise ReindexInProgress
            elif not await repository.has_active_job(building):
                await _enqueue_build(session, self.queue, self.db.tenant_id, building.id)
                await self._record(session, AuditAction.KNOWLEDGE_BASE_REINDEX, kb)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).add_counts(kb, reader=None)

    async def rollback(self, reference: str) -> KnowledgeBaseView:
        """Start a rollback to the former search index, or resume a stopped rollback.

        A job adds the documents that arrived since the switch. Then the former search index becomes the live search
        index.

        Args:
            reference: Name or id of the knowledge base.

        Returns:
            The knowledge base with its reindex progress.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NothingToRollBack: No former search index is retained.
            ReindexInProgress: Another generation is being built.
            IndexMismatch: The embedding model of the former search index is not configured.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self._lock_knowledge_base(session, reference)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.find_building(kb.row.id)
            if building is None:
                target = await repository.find_rollback_target(kb.row.id, max_age=self.rollback_window)
            elif building.was_live and not await repository.has_active_job(building):
                target = building.id, building.identity
            else:
                raise ReindexInProgress
            if target is None:
                raise NothingToRollBack
            index_id, identity = target
            if self.knowledge_bases.settings.embedders.find_by_identity(identity) is None:
                model = identity["model"]
                raise IndexMismatch(f"The former search index needs the model {model!r}. Configure it, or reindex.")
            if building is None:
                await repository.begin_build(index_id)
            await _enqueue_build(session, self.queue, self.db.tenant_id, index_id)
            await self._record(session, AuditAction.KNOWLEDGE_BASE_REINDEX_ROLLBACK, kb)
            return await KnowledgeBaseRepository(session, self.db.tenant_id).add_counts(kb, reader=None)

    async def cancel(self, reference: str) -> None:
        """Stop the build of the next generation. Index maintenance later drops its contents.

        A search index that was live before is retained for the rest of its rollback window.

        Args:
            reference: Name or id of the knowledge base.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            ReindexNotFound: No generation is being built.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self._lock_knowledge_base(session, reference)
            repository = GenerationRepository(session, self.db.tenant_id)
            building = await repository.find_building(kb.row.id)
            if building is None:
                raise ReindexNotFound
            await repository.cancel(building.id)
            await self._record(session, AuditAction.KNOWLEDGE_BASE_REINDEX_CANCEL, kb)

    async def _record(self, session: Session, action: AuditAction, kb: KnowledgeBaseView) -> None:
        await self.knowledge_bases.record_event(session, AuditEvent(action, [kb.row.id], kb.row.id))

    async def _lock_knowledge_base(self, session: Session, reference: str) -> KnowledgeBaseView:
        """Lock a knowledge base and return its present state. Raises KnowledgeBaseNotFound, NoDocumentStore."""
        unlocked_kb = await self.knowledge_bases.find_in_session(session, reference)
        repository = KnowledgeBaseRepository(session, self.db.tenant_id)
        await repository.lock(unlocked_kb.row.id)
        kb = await repository.find(unlocked_kb.row.id)
        if kb is None:
            raise KnowledgeBaseNotFound
        kb.require_documents()
        return kb

    def _build_index(self, kb: KnowledgeBaseView, options: ReindexOptions) -> SearchIndex:
        """Return the row of the next generation. Raises InvalidInputError."""
        settings = self.knowledge_bases.settings
        embedder = self._select_embedder(kb, options)
        chunking = kb.chunking if options.chunking is None else resolve_chunking(options.chunking, embedder)
        check_chunking(chunking, settings, embedder)
        language = options.language or kb.row.language
        graph = kb.graph.to_index_graph(settings.extractor_versions)
        return build_next_index(kb, embedder.identity, chunking=chunking, language=language, graph=graph)

    def _select_embedder(self, kb: KnowledgeBaseView, options: ReindexOptions) -> Embedder:
        """Return the requested embedder, or by default the live search index's embedder if it is configured."""
        embedders = self.knowledge_bases.settings.embedders
        if options.model is None and options.dimensions is None:
            return embedders.find_by_identity(kb.index.identity) or embedders.default
        return embedders.get_by_name(options.model, options.dimensions)


async def start_build(session: Session, queue: JobQueue, tenant_id: UUID, new_index: SearchIndex) -> None:
    """Add a generation to a knowledge base that is locked and builds no other generation, and start its build by a job.

    Args:
        session: The transaction that has locked the knowledge base.
        queue: Job queue.
        tenant_id: The tenant.
        new_index: Row of the generation.
    """
    repository = GenerationRepository(session, tenant_id)
    await repository.add(new_index)
    await repository.begin_build(new_index.id)
    await _enqueue_build(session, queue, tenant_id, new_index.id)


async def _enqueue_build(session: Session, queue: JobQueue, tenant_id: UUID, index_id: UUID) -> None:
    """Enqueue the build with interactive priority, because a caller waits for its start."""
    payload = {"index": str(index_id)}
    job_id = await queue.enqueue(session, REINDEX_JOB, tenant_id=tenant_id, payload=payload, priority=INTERACTIVE)
    await GenerationRepository(session, tenant_id).assign_job(index_id, job_id)


def _is_same_build(new_index: SearchIndex, building: Generation) -> bool:
    """Return whether two builds have equal settings, compared as JSON because ``True == 1`` in Python."""
    pair = [
        [new_index.identity, new_index.settings, new_index.graph],
        [building.identity, building.settings, building.graph],
    ]
    return len({json.dumps(settings, sort_keys=True) for settings in pair}) == 1

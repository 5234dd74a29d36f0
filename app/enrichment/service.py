"""Use cases of the enrichment: its state, an estimate of its costs, and its start for existing documents."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.session import TenantDatabase
from app.enrichment.estimate import DocumentEstimate, combine_estimates, estimate_document
from app.enrichment.models import EnrichmentModels
from app.enrichment.prompt import compute_settings_hash
from app.enrichment.queue import enqueue_pending
from app.enrichment.repository import EnrichmentRepository
from app.enrichment.types import (
    DocumentEnrichmentState,
    EnrichmentDisabled,
    EnrichmentEstimate,
    EnrichmentStatus,
)
from app.jobs.queue import JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView

MAX_SAMPLED_DOCUMENTS = 200
"""Maximum number of documents that an estimate reads. The numbers of others follow from their chunks."""


@dataclass(frozen=True, slots=True)
class EnrichmentService:
    """Use cases of the enrichment of knowledge bases. Keys that are restricted to a user may not call them."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    queue: JobQueue
    models: EnrichmentModels

    async def get_status(self, reference: str) -> EnrichmentStatus:
        """Return the number of documents in each state, and the tokens of the day.

        Args:
            reference: Name or id of the knowledge base.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base stores no documents.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            repository = EnrichmentRepository(session, self.db.tenant_id)
            documents = await repository.count_states(kb.row.id, self._compute_hash(kb))
            waiting_for = await repository.find_wait_reason(kb.row.id)
            calls, tokens = await repository.load_usage(kb.row.id)
        settings = kb.enrichment
        return EnrichmentStatus(
            enabled=settings.enabled,
            model=self.models.get_name(settings.model),
            documents=documents,
            waiting_for=waiting_for,
            calls_today=calls,
            tokens_today=tokens,
            max_tokens_per_day=settings.max_tokens_per_day,
        )

    async def run(self, reference: str) -> int:
        """Enqueue the documents that are not enriched, and return their number. Postponed documents are due now.

        Args:
            reference: Name or id of the knowledge base.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base stores no documents.
            EnrichmentDisabled: The knowledge base does not enrich documents.
            ChatNotConfigured: No chat model is configured.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            if not kb.enrichment.enabled:
                raise EnrichmentDisabled
            self.models.get(kb.enrichment.model)
            event = AuditEvent(AuditAction.KNOWLEDGE_BASE_ENRICHMENT_RUN, [kb.row.id], kb.row.id)
            await self.knowledge_bases.record_event(session, event)
            return await enqueue_pending(
                session,
                self.queue,
                tenant_id=self.db.tenant_id,
                kb_id=kb.row.id,
                settings_hash=self._compute_hash(kb),
            )

    async def estimate(self, reference: str) -> EnrichmentEstimate:
        """Estimate the calls and tokens of the documents that are not enriched. No model is called.

        Args:
            reference: Name or id of the knowledge base, which need not enrich documents yet.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base stores no documents.
            ForbiddenError: The caller's key is restricted to a user.
        """
        self.knowledge_bases.require_unrestricted_key()
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            repository = EnrichmentRepository(session, self.db.tenant_id)
            documents, chunks, sample = await repository.load_pending(
                kb.row.id, self._compute_hash(kb), MAX_SAMPLED_DOCUMENTS
            )
            calibration = await repository.load_calibration(kb.row.id)
        estimates = await self._estimate_documents(kb, [document_id for document_id, _ in sample])
        sampled_chunks = sum(chunk_count for _, chunk_count in sample)
        return combine_estimates(
            estimates,
            kb.enrichment,
            documents=documents,
            scale=chunks / max(1, sampled_chunks),
            calibration=calibration,
        )

    async def find_document_state(self, document_id: UUID) -> DocumentEnrichmentState | None:
        """Return the state of a document that the caller has found, or None if it was never enqueued."""
        async with self.db.transaction(allow_generic_plans=True) as session:
            return await EnrichmentRepository(session, self.db.tenant_id).find_state(document_id)

    async def _estimate_documents(self, kb: KnowledgeBaseView, documents: Sequence[UUID]) -> list[DocumentEstimate]:
        estimates: list[DocumentEstimate] = []
        model = self.models.get_name(kb.enrichment.model) or ""
        for document_id in documents:
            async with self.db.transaction() as session:
                repository = EnrichmentRepository(session, self.db.tenant_id)
                target = await repository.load_target(kb.row.id, document_id)
                replies = await repository.load_replies(document_id)
            if target is not None:
                estimates.append(
                    await asyncio.to_thread(estimate_document, target, model, kb.enrichment.parts, replies)
                )
        return estimates

    def _compute_hash(self, kb: KnowledgeBaseView) -> bytes:
        name = self.models.get_name(kb.enrichment.model) or ""
        return compute_settings_hash(name, kb.enrichment.parts)

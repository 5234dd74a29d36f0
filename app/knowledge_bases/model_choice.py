"""Choice of the embedding model of a knowledge base by the language of its first documents."""

from dataclasses import dataclass, replace
from uuid import UUID

from app.audit.repository import AuditRepository
from app.audit.types import SERVICE_ACTOR, AuditAction, AuditEvent
from app.db.models.tenant_data import SearchIndex
from app.db.session import Session, TenantDatabase
from app.db.statements import parse_statement
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.jobs.queue import JobQueue
from app.knowledge_bases.generation_repository import GenerationRepository
from app.knowledge_bases.index_settings import AUTOMATIC_MODEL, build_next_index
from app.knowledge_bases.model_language import MAX_DOCUMENTS, find_multilingual_embedder, is_english_only
from app.knowledge_bases.reindex_service import start_build
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import KnowledgeBaseView
from app.logging import get_logger
from app.warnings import WarningCode

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelChooser:
    """Service that moves a young knowledge base to the multilingual model if most of its documents need it."""

    db: TenantDatabase
    embedders: Embedders
    queue: JobQueue

    async def choose_model(self, kb_id: UUID) -> bool:
        """Start a reindex with the multilingual model, if no request named a model and most documents need it.

        The choice is made once: a reindex of any kind ends it. Knowledge bases with more than ``MAX_DOCUMENTS``
        documents are left alone, because their reindex is expensive. A knowledge base with a SQL view is left alone
        too. The platform embeds queries with the former model, and would find wrong rows without an error.

        Args:
            kb_id: The knowledge base, one of whose documents has the warning ``language_not_supported``.

        Returns:
            Whether the reindex was started.
        """
        embedder = find_multilingual_embedder(self.embedders)
        if embedder is None:
            return False
        async with self.db.transaction() as session:
            repository = KnowledgeBaseRepository(session, self.db.tenant_id)
            await repository.lock(kb_id)
            kb = await repository.find(kb_id)
            if kb is None or not await self._needs_multilingual_model(session, kb):
                return False
            await end_model_choice(session, self.db.tenant_id, kb.index.id)
            await start_build(session, self.queue, self.db.tenant_id, _build_index(kb, embedder))
            event = AuditEvent(AuditAction.KNOWLEDGE_BASE_REINDEX, [kb_id], kb_id)
            await AuditRepository(session, self.db.tenant_id).add(event, SERVICE_ACTOR)
        logger.info("knowledge_base.model_chosen", knowledge_base=str(kb_id), model=embedder.identity.model)
        return True

    async def _needs_multilingual_model(self, session: Session, kb: KnowledgeBaseView) -> bool:
        """Return whether a locked knowledge base has an English model by default, and few English documents."""
        if not kb.index.chooses_model or not is_english_only(kb.index.identity):
            return False
        if await GenerationRepository(session, self.db.tenant_id).find_building(kb.row.id) is not None:
            return False
        row = await session.fetch_row(
            _COUNT_DOCUMENTS,
            {
                "tenant": self.db.tenant_id,
                "kb": kb.row.id,
                "code": WarningCode.LANGUAGE_NOT_SUPPORTED.value,
                "limit": MAX_DOCUMENTS + 1,
            },
        )
        return (
            row is not None
            and not row["has_view"]
            and 0 < row["total"] <= MAX_DOCUMENTS
            and 2 * row["unread"] > row["total"]
        )


async def end_model_choice(session: Session, tenant_id: UUID, index_id: UUID) -> None:
    """End the choice of the model by the service, because the model is decided.

    Args:
        session: The transaction.
        tenant_id: The tenant.
        index_id: The live search index.
    """
    await session.fetch_rows(_END_CHOICE, {"tenant": tenant_id, "index": index_id})


def _build_index(kb: KnowledgeBaseView, embedder: Embedder) -> SearchIndex:
    """Return the next generation with the multilingual model; chunks that are too large for it become smaller."""
    max_tokens = min(kb.chunking.max_tokens, embedder.max_tokens - embedder.special_tokens)
    chunking = replace(
        kb.chunking, max_tokens=max_tokens, overlap_tokens=min(kb.chunking.overlap_tokens, max_tokens - 1)
    )
    return build_next_index(kb, embedder.identity, chunking=chunking, language=kb.row.language, graph=kb.index.graph)


# At most ``limit`` documents are read, so that a large knowledge base costs no more than a small one.
_COUNT_DOCUMENTS = parse_statement("""
select count(*) as total,
       count(*) filter (where d.warnings @> jsonb_build_array(jsonb_build_object('code', :code::text))) as unread,
       exists (select from sql_view where tenant_id = :tenant and kb_id = :kb and removed_at is null) as has_view
  from (select warnings from document
         where tenant_id = :tenant and kb_id = :kb and live_version is not null limit :limit::int) d""")
_END_CHOICE = parse_statement(f"""
update search_index set settings = settings - '{AUTOMATIC_MODEL}'
 where tenant_id = :tenant and id = :index and settings ? '{AUTOMATIC_MODEL}'""")  # noqa: S608

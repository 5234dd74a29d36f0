"""Creation of a knowledge base with its empty search index."""

from dataclasses import asdict, replace
from uuid import UUID

from app.db.models.tenant_data import KnowledgeBaseRow
from app.db.session import Session
from app.ids import generate_id
from app.knowledge_bases.index_settings import AUTOMATIC_MODEL, IndexSettings, build_index, resolve_chunking
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import DEFAULT_NAME, KnowledgeBaseNotFound, KnowledgeBaseView, NewKnowledgeBase
from app.lexical.languages import AUTO


async def create_default_knowledge_base(session: Session, tenant_id: UUID, settings: IndexSettings) -> None:
    """Create the knowledge base ``default`` in the transaction that creates its tenant."""
    await insert_knowledge_base(KnowledgeBaseRepository(session, tenant_id), NewKnowledgeBase(DEFAULT_NAME), settings)


async def insert_knowledge_base(
    repository: KnowledgeBaseRepository, new: NewKnowledgeBase, settings: IndexSettings
) -> KnowledgeBaseView:
    """Insert a knowledge base and its empty search index.

    Args:
        repository: Repository in the transaction.
        new: The knowledge base, whose settings are valid.
        settings: Available models.

    Returns:
        The stored knowledge base.
    """
    routing, texts = new.routing.to_stored()
    embedder = settings.embedders.get_by_name(new.model, new.dimensions)
    row = KnowledgeBaseRow(
        tenant_id=repository.tenant_id,
        id=generate_id(),
        name=new.name,
        title=new.title,
        description=new.description,
        language=new.language,
        chunking=asdict(resolve_chunking(new.chunking, embedder)),
        retrieval=asdict(new.retrieval),
        metadata_filter=new.metadata_filter or {},
        kind="documents" if new.source is None else new.source.kind,
        source=None if new.source is None else asdict(new.source),
        routing=routing,
        routing_texts=texts,
        graph=new.graph.to_stored(),
        enrichment=new.enrichment.to_stored(),
    )
    index_graph = None if new.source else new.graph.to_index_graph(settings.extractor_versions)
    index = build_index(repository.tenant_id, row.id, new.language, embedder.identity, index_graph)
    if new.model is None and new.dimensions is None and new.language == AUTO:
        index.settings = {AUTOMATIC_MODEL: True}
    await repository.add(row, index)
    return replace(await reload_view(repository, row.id), routing_texts=texts)


async def reload_view(repository: KnowledgeBaseRepository, kb_id: UUID) -> KnowledgeBaseView:
    """Return a knowledge base after a write in this transaction. Raises KnowledgeBaseNotFound."""
    view = await repository.find(kb_id)
    if view is None:  # another request deleted it before this transaction wrote to it
        raise KnowledgeBaseNotFound
    return view

"""Metadata of a document that changed while the document was ingested, and the entities that come from metadata."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.ingestion.embedding_text import ChunkedDocument
from app.ingestion.graph_extraction import GraphSource, build_chunk_metadata, extract_graphs
from app.ingestion.repository import IndexedDocument
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.types import KnowledgeBaseView


def build_graph_source(
    document: DocumentRow, kb: KnowledgeBaseView, chunked: ChunkedDocument, language: str
) -> GraphSource:
    """Return the values of a new version that its entities come from.

    Args:
        document: The document as it was when its ingestion began.
        kb: The knowledge base.
        chunked: The chunks.
        language: Language of the document's analyzer.
    """
    settings = kb.index_graph
    metadata = (
        build_chunk_metadata(document.attributes, chunked.drafts, kb.row.enforced_metadata)
        if settings is not None and settings.needs_metadata
        else ()
    )
    return GraphSource(settings, document.title or chunked.title, document.source, language, metadata)


async def apply_current_metadata(
    session: Session, document: DocumentRow, former: DocumentRow, kb: KnowledgeBaseView, indexed: IndexedDocument
) -> IndexedDocument:
    """Drop chunk metadata that the knowledge base enforces now, and extract the entities of changed metadata again.

    Plugins do not run again, because they may need minutes: their entities come from the former metadata.

    Args:
        session: The transaction that stores the document.
        document: The document, which is locked.
        former: The document as it was when its ingestion began.
        kb: The knowledge base as it was when the ingestion began.
        indexed: Result of the ingestion.
    """
    enforced_metadata = kb.row.enforced_metadata
    if any(draft.metadata for draft in indexed.drafts):
        current_kb = await KnowledgeBaseRepository(session, document.tenant_id).find(document.kb_id)
        enforced_metadata = current_kb.row.enforced_metadata if current_kb else {}
        indexed = _drop_enforced_metadata(indexed, enforced_metadata)
    settings = kb.index_graph
    if settings is None or not settings.metadata_keys:
        return indexed
    if document.attributes == former.attributes and enforced_metadata == kb.row.enforced_metadata:
        return indexed
    metadata = build_chunk_metadata(document.attributes, indexed.drafts, enforced_metadata)
    source = GraphSource(settings, document.title, document.source, indexed.language, metadata)
    graphs = await asyncio.to_thread(extract_graphs, source, indexed.drafts, indexed.plugin_entities)
    return replace(indexed, graphs=graphs)


def _drop_enforced_metadata(indexed: IndexedDocument, enforced_metadata: Mapping[str, object]) -> IndexedDocument:
    """Drop chunk metadata that the knowledge base enforces; the enforced metadata may be newer than the upload."""
    drafts = [
        replace(draft, metadata={key: value for key, value in draft.metadata.items() if key not in enforced_metadata})
        for draft in indexed.drafts
    ]
    return replace(indexed, drafts=drafts)

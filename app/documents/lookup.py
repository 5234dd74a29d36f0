"""Lookup of a document for a reader: in the tenant's knowledge base, then in its shared counterpart."""

from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.documents.repository import DocumentRepository
from app.documents.scopes import ScopeLevel
from app.documents.types import DocumentNotFound
from app.knowledge_bases.types import KnowledgeBaseView


async def find_readable_document(
    session: Session, kb: KnowledgeBaseView, document_id: UUID, *, reader: str | None
) -> tuple[DocumentRow, KnowledgeBaseView]:
    """Return a document and the knowledge base that contains it.

    Args:
        session: An open transaction of the tenant.
        kb: The tenant's knowledge base. Its shared counterpart belongs to the system tenant and has the same name.
        document_id: The document.
        reader: The user that the caller's key is restricted to, or None.

    Returns:
        The document, and ``kb`` or its shared counterpart.

    Raises:
        DocumentNotFound: Neither knowledge base has the document, or the caller may not read it.
    """
    document = await DocumentRepository(session, kb.row.tenant_id).get(kb.row.id, document_id, reader=reader)
    if document is not None:
        return document, kb
    if kb.shared_counterpart is not None:
        document = await DocumentRepository(session, kb.shared_counterpart.row.tenant_id).get(
            kb.shared_counterpart.row.id, document_id
        )
        if document is not None and document.scope_level == ScopeLevel.SHARED:
            return document, kb.shared_counterpart
    raise DocumentNotFound

"""Find a document for a reader: in the tenant's knowledge base, else in the shared one of the same name."""

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
    """The document and the knowledge base that it is in; ``reader`` is the user that the key is narrowed to.

    Raises DocumentNotFound.
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

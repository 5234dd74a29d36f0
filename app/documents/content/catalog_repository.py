"""Queries for documents across knowledge bases."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import and_, or_, select

from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.scopes import ScopeLevel


class DocumentCatalogRepository:
    """Queries for the documents of one tenant, across knowledge bases.

    The caller restricts the results to the knowledge bases and users that its key may read.
    """

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_knowledge_base_id(self, document_id: UUID) -> UUID | None:
        """Return the id of the tenant's knowledge base through which a document is read, or None.

        A document of the system tenant is read through the tenant's knowledge base with the same name.
        """
        params = {"tenant": self.tenant_id, "document": document_id}
        row = await self.session.fetch_row(_FIND_KNOWLEDGE_BASE_ID, params)
        return None if row is None else row["id"]

    async def list_documents(
        self, *, allowed_kb_ids: Collection[UUID] | None, reader: str | None, before: UUID | None, limit: int
    ) -> list[tuple[DocumentRow, str]]:
        """List documents that have a live version, newest first, each with the name of its knowledge base.

        Args:
            allowed_kb_ids: Only documents in these knowledge bases are listed. None allows all of them.
            reader: The user whose documents are listed in addition to the tenant's. None adds no documents.
            before: Id of the last document of the previous page. None begins with the newest document.
            limit: The maximum number of documents.

        Returns:
            Pairs of document and knowledge base name.
        """
        is_public = DocumentRow.scope_level.in_((ScopeLevel.SHARED, ScopeLevel.TENANT))
        is_visible = is_public if reader is None else or_(is_public, DocumentRow.user_id == reader)
        query = apply_filters(select(DocumentRow, KnowledgeBaseRow.name), DocumentRowFilters()).where(
            DocumentRow.tenant_id == self.tenant_id, DocumentRow.live_version.is_not(None), is_visible
        )
        query = query.join(
            KnowledgeBaseRow,
            and_(KnowledgeBaseRow.tenant_id == DocumentRow.tenant_id, KnowledgeBaseRow.id == DocumentRow.kb_id),
        )
        if allowed_kb_ids is not None:
            query = query.where(DocumentRow.kb_id.in_(allowed_kb_ids))
        if before is not None:
            query = query.where(DocumentRow.id < before)
        # Document ids sort by creation time, so the primary key's index gives the order.
        rows = await self.session.execute(query.order_by(DocumentRow.id.desc()).limit(limit))
        return [(document, name) for document, name in rows]


_FIND_KNOWLEDGE_BASE_ID = parse_statement("""
select k.id from document d
  join knowledge_base h on h.tenant_id = d.tenant_id and h.id = d.kb_id
  join knowledge_base k on k.tenant_id = :tenant::uuid
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = :document""")

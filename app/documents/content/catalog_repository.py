"""Queries for documents across the knowledge bases of a key."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import and_, or_, select

from app.db.models.tenant_data import DocumentRow, KnowledgeBaseRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.scopes import ScopeLevel


class DocumentCatalogRepository:
    """Reads in one tenant; what of it a key may see is for whoever asks."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_knowledge_base_id(self, document_id: UUID) -> UUID | None:
        """The tenant's knowledge base that shows the document; a shared one by the name that both have."""
        params = {"tenant": self.tenant_id, "document": document_id}
        row = await self.session.fetch_row(_FIND_KNOWLEDGE_BASE_ID, params)
        return None if row is None else row["id"]

    async def list_documents(
        self, *, allowed_kb_ids: Collection[UUID] | None, reader: str | None, before: UUID | None, limit: int
    ) -> list[tuple[DocumentRow, str]]:
        """Documents that can be read, newest first, each with its knowledge base's name.

        Of the tenant's level, and of the user's that is ``reader``; in the knowledge bases ``allowed_kb_ids``, or in
        all.
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
        # By id, which the primary key has in order: ids of documents are sorted by time.
        rows = await self.session.execute(query.order_by(DocumentRow.id.desc()).limit(limit))
        return [(document, name) for document, name in rows]


_FIND_KNOWLEDGE_BASE_ID = parse_statement("""
select k.id from document d
  join knowledge_base h on h.tenant_id = d.tenant_id and h.id = d.kb_id
  join knowledge_base k on k.tenant_id = :tenant::uuid
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = :document""")

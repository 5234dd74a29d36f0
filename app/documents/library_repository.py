"""Queries for documents across the knowledge bases of a key."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import and_, or_, select

from app.db.models.tenant_data import Document, KnowledgeBase
from app.db.session import Session
from app.db.statements import statement
from app.documents.repository import DocumentFilters, narrowed
from app.documents.scopes import ScopeLevel


class LibraryRepository:
    """Reads in one tenant; what of it a key may see is for whoever asks."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def home(self, document_id: UUID) -> UUID | None:
        """The tenant's knowledge base that shows the document; a shared one by the name that both have."""
        place = {"tenant": self.tenant_id, "document": document_id}
        found = await self.session.row(_HOME, place)
        return None if found is None else found["id"]

    async def page(
        self, *, only: Collection[UUID] | None, reader: str | None, before: UUID | None, limit: int
    ) -> list[tuple[Document, str]]:
        """Documents that can be read, newest first, each with its knowledge base's name.

        Of the tenant's level, and of the user's that is ``reader``; in the knowledge bases ``only``, or in all.
        """
        everybodys = Document.scope_level.in_((ScopeLevel.SHARED, ScopeLevel.TENANT))
        mine = everybodys if reader is None else or_(everybodys, Document.user_id == reader)
        found = narrowed(select(Document, KnowledgeBase.name), DocumentFilters()).where(
            Document.tenant_id == self.tenant_id, Document.live_version.is_not(None), mine
        )
        found = found.join(
            KnowledgeBase, and_(KnowledgeBase.tenant_id == Document.tenant_id, KnowledgeBase.id == Document.kb_id)
        )
        if only is not None:
            found = found.where(Document.kb_id.in_(only))
        if before is not None:
            found = found.where(Document.id < before)
        # By id, which the primary key has in order: ids of documents are sorted by time.
        rows = await self.session.execute(found.order_by(Document.id.desc()).limit(limit))
        return [(document, name) for document, name in rows]


_HOME = statement("""
select k.id from document d
  join knowledge_base h on h.tenant_id = d.tenant_id and h.id = d.kb_id
  join knowledge_base k on k.tenant_id = :tenant::uuid
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = :document""")

"""Queries for documents as the files of a knowledge base."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Select, select

from app.db.models.tenant_data import Document
from app.db.session import Session
from app.documents.repository import DocumentFilters, narrowed


@dataclass(frozen=True, slots=True)
class AttachmentPage:
    """A place in a list in the order of ids, which is that of time."""

    statuses: Sequence[str] | None
    beyond: UUID | None
    newest_first: bool
    limit: int


class AttachmentRepository:
    """Queries in one tenant; ``reader`` is the user that the key is narrowed to."""

    def __init__(self, session: Session, tenant_id: UUID, *, reader: str | None) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.reader = reader

    async def by_external_id(self, kb_id: UUID, external_id: str) -> Document | None:
        """The oldest that the key may read, where several users' have it."""
        query = self._of(kb_id, DocumentFilters(external_id=external_id, reader=self.reader))
        return await self.session.scalar(query.order_by(Document.id).limit(1))

    async def page(self, kb_id: UUID, page: AttachmentPage) -> list[Document]:
        """Some of the knowledge base's documents."""
        query = self._of(kb_id, DocumentFilters(reader=self.reader))
        if page.statuses is not None:
            query = query.where(Document.status.in_(page.statuses))
        if page.beyond is not None:
            query = query.where(Document.id < page.beyond if page.newest_first else Document.id > page.beyond)
        order = Document.id.desc() if page.newest_first else Document.id.asc()
        return list(await self.session.scalars(query.order_by(order).limit(page.limit)))

    async def external_ids(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Of those documents that have one."""
        query = select(Document.id, Document.external_id).where(
            Document.tenant_id == self.tenant_id, Document.id.in_(ids), Document.external_id.is_not(None)
        )
        return {document_id: name for document_id, name in await self.session.execute(query) if name is not None}

    def _of(self, kb_id: UUID, filters: DocumentFilters) -> Select[Document]:
        query = narrowed(select(Document), filters)
        return query.where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)

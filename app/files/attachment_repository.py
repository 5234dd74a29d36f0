"""Queries for attachments: documents of a knowledge base that the API presents as files of a vector store."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Select, select

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.documents.repository import DocumentRowFilters, apply_filters


@dataclass(frozen=True, slots=True)
class AttachmentListParams:
    """Conditions and position of a page of attachments. The order of document ids is the order of creation.

    ``cursor_id`` is the last document of the previous page, or None for the first page. ``statuses`` restricts the list
    to documents with one of these statuses.
    """

    statuses: Sequence[str] | None
    cursor_id: UUID | None
    newest_first: bool
    limit: int


class AttachmentRepository:
    """Queries for attachments of one tenant.

    ``reader`` is the user that the API key of the caller is restricted to, or None.
    """

    def __init__(self, session: Session, tenant_id: UUID, *, reader: str | None) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.reader = reader

    async def find_by_external_id(self, kb_id: UUID, external_id: str) -> DocumentRow | None:
        """Return the oldest readable document with an external id, or None.

        Several users can each have a document with the same external id.
        """
        query = self._select_documents(kb_id, DocumentRowFilters(external_id=external_id, reader=self.reader))
        return await self.session.scalar(query.order_by(DocumentRow.id).limit(1))

    async def list_documents(self, kb_id: UUID, params: AttachmentListParams) -> list[DocumentRow]:
        """List documents of a knowledge base.

        Args:
            kb_id: The knowledge base.
            params: The conditions and the position of the page.

        Returns:
            At most ``params.limit`` documents.
        """
        query = self._select_documents(kb_id, DocumentRowFilters(reader=self.reader))
        if params.statuses is not None:
            query = query.where(DocumentRow.status.in_(params.statuses))
        if params.cursor_id is not None:
            query = query.where(
                DocumentRow.id < params.cursor_id if params.newest_first else DocumentRow.id > params.cursor_id
            )
        order = DocumentRow.id.desc() if params.newest_first else DocumentRow.id.asc()
        return list(await self.session.scalars(query.order_by(order).limit(params.limit)))

    async def load_external_ids(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return the external ids by document id, without documents that have no external id."""
        query = select(DocumentRow.id, DocumentRow.external_id).where(
            DocumentRow.tenant_id == self.tenant_id, DocumentRow.id.in_(ids), DocumentRow.external_id.is_not(None)
        )
        return {document_id: name for document_id, name in await self.session.execute(query) if name is not None}

    def _select_documents(self, kb_id: UUID, filters: DocumentRowFilters) -> Select[DocumentRow]:
        query = apply_filters(select(DocumentRow), filters)
        return query.where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == kb_id)

"""Queries for documents as the files of a knowledge base, and for batches of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Select, func, select, update

from app.db.models.openai import BatchFile, FileBatch
from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import statement
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

    async def add_batch(self, batch: FileBatch, files: Sequence[BatchFile]) -> None:
        """Insert it; a document that is gone by now is left out."""
        self.session.add(batch)
        await self.session.flush()
        values = {
            "t": self.tenant_id,
            "kb": batch.kb_id,
            "batch": batch.id,
            "ordinals": [file.ordinal for file in files],
            "files": [file.file_id for file in files],
            "documents": [file.document_id for file in files],
            "errors": [None if file.error is None else json.dumps(file.error) for file in files],
        }
        await self.session.rows(_ADD_FILES, values)

    async def batch(self, kb_id: UUID, batch_id: UUID) -> FileBatch | None:
        """One of this knowledge base."""
        query = select(FileBatch).where(
            FileBatch.tenant_id == self.tenant_id, FileBatch.kb_id == kb_id, FileBatch.id == batch_id
        )
        return await self.session.scalar(query)

    async def batch_files(self, batch: FileBatch) -> list[tuple[BatchFile, Document | None]]:
        """In their order, with the documents that they were made; those that the key may not read are left out."""
        query = select(BatchFile).where(BatchFile.tenant_id == self.tenant_id, BatchFile.batch_id == batch.id)
        rows = list(await self.session.scalars(query.order_by(BatchFile.ordinal)))
        ids = [row.document_id for row in rows if row.document_id is not None]
        found = await self.session.scalars(self._of(batch.kb_id, DocumentFilters(ids=ids, reader=self.reader)))
        documents = {document.id: document for document in found}
        return [
            (row, documents.get(row.document_id) if row.document_id else None)
            for row in rows
            if row.document_id is None or row.document_id in documents
        ]

    async def cancel(self, batch_id: UUID, *, taken_out: int) -> None:
        """So many of it were taken out before they were ready."""
        await self.session.execute(
            update(FileBatch)
            .where(FileBatch.tenant_id == self.tenant_id, FileBatch.id == batch_id)
            .values(
                cancelled=FileBatch.cancelled + taken_out,
                cancelled_at=func.coalesce(FileBatch.cancelled_at, func.now()),
            )
        )

    def _of(self, kb_id: UUID, filters: DocumentFilters) -> Select[Document]:
        query = narrowed(select(Document), filters)
        return query.where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)


_ADD_FILES = statement("""
insert into openai_batch_file (tenant_id, batch_id, ordinal, file_id, kb_id, document_id, error)
select :t::uuid, :batch::uuid, f.ordinal, f.file_id, :kb::uuid, f.document_id, f.error
  from unnest(:ordinals::integer[], :files::uuid[], :documents::uuid[], :errors::jsonb[])
       f(ordinal, file_id, document_id, error)
 where f.document_id is null or exists (select from document d where d.tenant_id = :t and d.id = f.document_id)""")

"""Read, change and delete documents."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.tenant_data import Chunk, Document, Node
from app.db.session import TenantDatabase
from app.documents.repository import DocumentFilters, DocumentRepository
from app.documents.types import (
    DocumentNotFound,
    filterable,
)
from app.job_queue import JobQueue
from app.knowledge_bases.service import PURGE_JOB, KnowledgeBaseService
from app.object_store import ObjectStore

INGEST_JOB = "ingest_document"
_FINAL = ("ready", "failed")


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes that were uploaded: a link where the object store makes links, else what to stream."""

    key: str
    document: Document
    link: str | None


@dataclass(frozen=True, slots=True)
class DocumentTreeView:
    """The tree of the live version: nodes in reading order, and the text their offsets refer to."""

    document: Document
    nodes: Sequence[Node]
    text: str


@dataclass(frozen=True, slots=True)
class DocumentService:
    """What a tenant can do with documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue

    async def get(self, reference: str, document_id: UUID) -> Document:
        """Raises KnowledgeBaseNotFound, DocumentNotFound."""
        async with self.db.transaction() as session:
            return await self._get_in(session, reference, document_id)

    async def _get_in(
        self, session: AsyncSession, reference: str, document_id: UUID, *, lock: bool = False
    ) -> Document:
        kb = await self.knowledge_bases.find_in(session, reference)
        document = await DocumentRepository(session, self.db.tenant_id).get(kb.row.id, document_id, lock=lock)
        if document is None:
            raise DocumentNotFound
        return document

    async def wait(self, reference: str, document_id: UUID, seconds: float) -> Document:
        """The document as soon as its newest version is ready or failed, or as it is after ``seconds``."""
        deadline = time.monotonic() + seconds
        document = await self.get(reference, document_id)
        pause = 0.02
        while document.status not in _FINAL and time.monotonic() < deadline:
            await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, 0.25)
            document = await self.get(reference, document_id)
        return document

    async def page(
        self, reference: str, filters: DocumentFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> tuple[str, list[Document]]:
        """The knowledge base's name and its documents, newest first. Raises KnowledgeBaseNotFound."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            repository = DocumentRepository(session, self.db.tenant_id)
            return kb.row.name, await repository.page(kb.row.id, filters, after=after, limit=limit)

    async def update(self, reference: str, document_id: UUID, changes: Mapping[str, Any]) -> Document:
        """Set ``metadata``, ``title``, ``source_uri`` or ``source_created_at``, in the document and for search.

        Raises KnowledgeBaseNotFound, DocumentNotFound.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            document = await self._get_in(session, reference, document_id, lock=True)
            if _apply(document, changes, kb.row.metadata_filter):
                document.updated_at = datetime.now(UTC)
                document.filterable = filterable(document)
                await session.flush()
                await DocumentRepository(session, self.db.tenant_id).restamp(document)
        return document

    async def original(self, reference: str, document_id: UUID, *, inline: Collection[str]) -> Original:
        """The newest version's bytes; a link shows the media types of ``inline`` in place. Raises DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            key = await DocumentRepository(session, self.db.tenant_id).object_key(document.id, document.version)
        if key is None:
            raise DocumentNotFound
        media_type = document.media_type
        link = await self.objects.presign(
            key, filename=document.source, media_type=media_type, inline=media_type in inline
        )
        return Original(key, document, link)

    async def chunks(
        self, reference: str, document_id: UUID, *, after: int, limit: int
    ) -> tuple[Document, list[Chunk]]:
        """The live version's chunks behind chunk_index ``after``. Raises DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            repository = DocumentRepository(session, self.db.tenant_id)
            return document, await repository.chunks(document, after=after, limit=limit)

    async def tree(self, reference: str, document_id: UUID) -> DocumentTreeView:
        """The live version's tree; without nodes before the first version is ready. Raises DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            repository = DocumentRepository(session, self.db.tenant_id)
            nodes = await repository.nodes(document.id)
            return DocumentTreeView(document, nodes, await repository.stored_text(document.id) or "")

    async def delete(self, reference: str, document_id: UUID) -> None:
        """Out of every search when this returns; the original follows by a job. Raises DocumentNotFound."""
        async with self.db.transaction() as session:
            document = await self._get_in(session, reference, document_id)
            if not await DocumentRepository(session, self.db.tenant_id).remove(document.kb_id, document.id):
                raise DocumentNotFound
            payload = {"prefix": f"{self.db.tenant_id}/{document.id}/"}
            await self.queue.enqueue(session, PURGE_JOB, tenant_id=self.db.tenant_id, payload=payload)


def _apply(document: Document, changes: Mapping[str, Any], stamp: Mapping[str, Any]) -> bool:
    """Set what the changes name; True when anything is another now."""
    wanted = dict(changes)
    if "metadata" in wanted:
        wanted["attributes"] = {**wanted.pop("metadata"), **stamp}
    different = {name: value for name, value in wanted.items() if value != getattr(document, name)}
    for name, value in different.items():
        setattr(document, name, value)
    return bool(different)

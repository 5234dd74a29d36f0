"""Upload, read, change and delete documents."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models.tenant_data import Chunk, Document, Node
from app.db.session import TenantDatabase
from app.documents.inspection import inspect_upload
from app.documents.repository import DocumentFilters, DocumentRepository
from app.documents.types import (
    DocumentFacts,
    DocumentNotFound,
    ReceivedFile,
    UploadConflict,
    Uploaded,
    filterable,
    object_key,
)
from app.documents.uploads import receive, spool_text
from app.ids import new_id
from app.inference.embedding import EmbeddingIdentity
from app.job_queue import JobQueue
from app.knowledge_bases.service import PURGE_JOB, KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectStore

_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s", re.MULTILINE)
_FINAL = ("ready", "failed")
ATTEMPTS = 5


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

    INGEST_JOB: ClassVar[str] = "ingest_document"

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    identity: EmbeddingIdentity
    parseable: Collection[str]
    max_upload_bytes: int

    async def upload(
        self,
        reference: str,
        body: AsyncIterator[bytes],
        boundary: bytes,
        read_facts: Callable[[Mapping[str, str]], DocumentFacts],
    ) -> Uploaded:
        """Store a streamed form's file and queue it for ingestion; nothing of the body is read before the checks.

        Raises KnowledgeBaseNotFound, IndexMismatch, UploadTooLarge, EmptyUpload, EncryptedUpload, UnsupportedMediaType.
        """
        kb = await self._open(reference)
        async with receive(body, boundary, limit=self.max_upload_bytes) as received:
            facts = read_facts(received.fields)
            return await self._store(kb, received, facts)

    async def upload_text(self, reference: str, text: str, facts: DocumentFacts, *, media_type: str | None) -> Uploaded:
        """The same for a text in hand; without a media type a line like ``# Title`` makes it Markdown."""
        kb = await self._open(reference)
        kind = media_type or ("text/markdown" if _MARKDOWN_HEADING.search(text) else "text/plain")
        name = facts.title or facts.external_id or "text"
        async with spool_text(text, filename=name, media_type=kind) as received:
            return await self._store(kb, received, replace(facts, encoding="utf-8"))

    async def _open(self, reference: str) -> KnowledgeBaseView:
        kb = await self.knowledge_bases.find(reference)
        kb.require_match(self.identity)
        return kb

    async def _store(self, kb: KnowledgeBaseView, received: ReceivedFile, facts: DocumentFacts) -> Uploaded:
        media_type = await asyncio.to_thread(inspect_upload, received, self.parseable)
        for _ in range(ATTEMPTS):
            async with self.db.transaction() as session:
                found = await DocumentRepository(session, self.db.tenant_id).by_identity(
                    kb.row.id, facts.scope.key(), external_id=facts.external_id, sha256=received.sha256
                )
            if found is not None and found.sha256 == received.sha256:
                with suppress(DocumentNotFound):  # it was deleted just now: this is a new one then
                    return await self._same_bytes(kb, found, facts)
                continue
            document = _new_document(kb, received, facts, media_type, found)
            key = object_key(self.db.tenant_id, document.id, new_id())
            await self.objects.put(key, received.path)
            if await self._write(document, key, replaces=found is not None):
                return Uploaded(await self.get(kb.row.name, document.id), kb.row.name, created=True)
        raise UploadConflict

    async def _write(self, document: Document, key: str, *, replaces: bool) -> bool:
        """Row and job in one transaction; False, and the object gone, when another request was faster."""
        try:
            async with self.db.transaction() as session:
                repository = DocumentRepository(session, self.db.tenant_id)
                if replaces:
                    written = await self._begin_version(repository, document)
                else:
                    written = await repository.add(document)
                if written:
                    await repository.add_object(document.id, document.version, key)
                    await self._enqueue(session, document)
        except IntegrityError as exc:
            await self.objects.delete(key)
            raise KnowledgeBaseNotFound from exc  # it was deleted while the file came in
        if not written:
            await self.objects.delete(key)
        return written

    async def _begin_version(self, repository: DocumentRepository, document: Document) -> bool:
        """The next version of the row that is there; False when it is gone, or has these bytes by now."""
        current = await repository.get(document.kb_id, document.id, lock=True)
        if current is None or current.sha256 == document.sha256:
            return False
        document.version = current.version + 1
        return await repository.begin_version(document, expected=current.version)

    async def _enqueue(self, session: AsyncSession, document: Document) -> None:
        await self.queue.enqueue(
            session,
            self.INGEST_JOB,
            tenant_id=self.db.tenant_id,
            document_id=document.id,
            payload={"version": document.version},
        )

    async def _same_bytes(self, kb: KnowledgeBaseView, found: Document, facts: DocumentFacts) -> Uploaded:
        """Answer with the document that is there; other facts are applied, a failed one is tried again."""
        given: dict[str, Any] = {"metadata": facts.metadata, "title": facts.title}
        given |= {"source_uri": facts.source_uri, "source_created_at": facts.source_created_at}
        changes = {name: value for name, value in given.items() if value is not None}
        document = await self.update(kb.row.name, found.id, changes)
        if document.status != "failed":
            return Uploaded(document, kb.row.name, created=False)
        async with self.db.transaction() as session:
            repository = DocumentRepository(session, self.db.tenant_id)
            if await repository.requeue(document.id, document.version, encoding=facts.encoding):
                await self._enqueue(session, document)
        return Uploaded(await self.get(kb.row.name, found.id), kb.row.name, created=True)

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


def _new_document(
    kb: KnowledgeBaseView, received: ReceivedFile, facts: DocumentFacts, media_type: str, replaces: Document | None
) -> Document:
    """The row of a first version, or what the next one changes in ``replaces``."""
    document = Document(
        tenant_id=kb.row.tenant_id,
        kb_id=kb.row.id,
        id=replaces.id if replaces else new_id(),
        version=1,
        external_id=facts.external_id,
        source=received.filename,
        title=facts.title,
        source_uri=facts.source_uri,
        source_created_at=facts.source_created_at,
        media_type=media_type,
        encoding=facts.encoding,
        bytes=received.size,
        sha256=received.sha256,
        scope_level=facts.scope.level().value,
        scope_key=facts.scope.key(),
        user_id=facts.scope.user_id,
        chat_id=facts.scope.chat_id,
        agent_id=facts.scope.agent_id,
        attributes={**(facts.metadata or {}), **kb.row.metadata_filter},
        created_at=replaces.created_at if replaces else datetime.now(UTC),
    )
    document.filterable = filterable(document)
    return document

"""Upload: object, then row and job in one transaction."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import Action, Actor
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.expiring import find_lasting
from app.documents.given_chunks import encode_chunks
from app.documents.inspection import inspect_upload
from app.documents.narrowing import claim
from app.documents.repository import DocumentRepository
from app.documents.restamp_repository import RestampRepository
from app.documents.scopes import Scope
from app.documents.service import DocumentService
from app.documents.types import (
    CHUNKS_TYPE,
    DocumentFacts,
    DocumentNotFound,
    GivenChunk,
    ReceivedFile,
    UploadConflict,
    Uploaded,
    Verdict,
    filterable,
    object_key,
)
from app.documents.upload_repository import KnownDocument, UploadRepository
from app.documents.uploads import receive, spool_text
from app.errors import Conflict, InvalidInput, TooLarge, TooMany, Unsupported
from app.ids import new_id
from app.inference.embedding import EmbeddingIdentity
from app.job_queue import BULK, INTERACTIVE, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectStore
from app.quotas.service import QuotaService
from app.quotas.types import QuotaExceeded

# By name or id, or as the caller has found it just now.
Reference = str | KnowledgeBaseView
# What else is written of a document, in the transaction that writes it. Raises DocumentNotFound for one that is gone.
Settle = Callable[[Session, UUID], Awaitable[None]]
ATTEMPTS = 5
# So little is stored before it is asked whether it is there already: mostly it is not, and asking costs more.
SMALL_BYTES = 64 * 1024
MOST_FILES = 100


@dataclass(frozen=True, slots=True)
class UploadService:
    """How documents come in."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    documents: DocumentService
    objects: ObjectStore
    queue: JobQueue
    parseable: Collection[str]
    plugin_types: Mapping[str, Collection[str]]
    quotas: QuotaService

    async def upload(
        self,
        reference: Reference,
        body: AsyncIterator[bytes],
        boundary: bytes,
        read_facts: Callable[[Mapping[str, str]], DocumentFacts],
    ) -> Uploaded:
        """Store a streamed form's file and queue it for ingestion; nothing of the body is read before the checks.

        Raises KnowledgeBaseNotFound, IndexMismatch, UploadTooLarge, EmptyUpload, EncryptedUpload, UnsupportedMediaType,
        QuotaExceeded.
        """
        kb = await self._open(reference)
        async with receive(body, boundary, limit=self.quotas.upload_bytes) as form:
            return await self._store(kb, form.files[0], read_facts(form.fields), INTERACTIVE)

    async def upload_many(
        self,
        reference: Reference,
        body: AsyncIterator[bytes],
        boundary: bytes,
        read_facts: Callable[[Mapping[str, str]], DocumentFacts],
    ) -> list[Verdict]:
        """The same for many files of one form, in its order; the other fields hold for all of them.

        What is wrong with one file is its verdict and stops no other. Raises KnowledgeBaseNotFound, IndexMismatch;
        UploadTooLarge for all of them together; InvalidInput for a field that can hold for one document alone.
        """
        kb = await self._open(reference)
        async with receive(body, boundary, limit=self.quotas.upload_bytes, most_files=MOST_FILES) as form:
            facts = read_facts(form.fields)
            for name in ("external_id", "title"):
                if getattr(facts, name) is not None:
                    raise InvalidInput(f"Many files cannot share one {name}.", loc=("body", name))
            return [await self._judge(kb, file, facts) for file in form.files]

    async def _judge(self, kb: KnowledgeBaseView, file: ReceivedFile, facts: DocumentFacts) -> Verdict:
        try:
            return Verdict(file.filename, await self._store(kb, file, facts, BULK))
        except (InvalidInput, TooLarge, TooMany, Unsupported, Conflict) as exc:
            return Verdict(file.filename, error=exc)

    async def upload_text(
        self, reference: Reference, text: str, facts: DocumentFacts, *, media_type: str | None
    ) -> Uploaded:
        """The same for a text in hand; without a media type a line like ``# Title`` makes it Markdown."""
        kb = await self._open(reference)
        name = facts.title or facts.external_id or "text"
        async with spool_text(text, filename=name, media_type=media_type) as received:
            return await self._store(kb, received, replace(facts, encoding="utf-8"), INTERACTIVE)

    async def upload_chunks(self, reference: Reference, chunks: Sequence[GivenChunk], facts: DocumentFacts) -> Uploaded:
        """The same for chunks that were cut elsewhere; their vectors are checked here. Raises InvalidInput too."""
        kb = await self._open(reference)
        model = EmbeddingIdentity.stored(kb.index.identity)
        fixed = kb.row.stamp.keys()  # stamped on all that goes in, over what the caller says
        body = await asyncio.to_thread(encode_chunks, chunks, model=model, without=fixed)
        name = facts.title or facts.external_id or "chunks"
        async with spool_text(body, filename=name, media_type=CHUNKS_TYPE) as received:
            return await self._store(kb, received, facts, INTERACTIVE, media_type=CHUNKS_TYPE)

    async def upload_received(
        self, reference: Reference, received: ReceivedFile, facts: DocumentFacts, priority: int, settle: Settle | None
    ) -> Uploaded:
        """The same for a file that is on the local disk already; where ``settle`` raises, nothing is stored."""
        return await self._store(await self._open(reference), received, facts, priority, settle=settle)

    async def _open(self, reference: Reference) -> KnowledgeBaseView:
        kb = reference if isinstance(reference, KnowledgeBaseView) else await self.knowledge_bases.find(reference)
        kb.require_documents()
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        return kb

    async def _store(
        self,
        kb: KnowledgeBaseView,
        received: ReceivedFile,
        facts: DocumentFacts,
        priority: int,
        *,
        media_type: str | None = None,
        settle: Settle | None = None,
    ) -> Uploaded:
        facts = replace(facts, scope=facts.scope.of_tenant(self.db.tenant_id))
        if media_type is None:
            media_type = await asyncio.to_thread(inspect_upload, received, self.parseable, self.plugin_types)
        await self._claim(facts.scope)
        ask = received.size > SMALL_BYTES or facts.external_id is not None
        for attempt in range(ATTEMPTS):
            if attempt:  # it may have got another stamp
                kb = await self.knowledge_bases.find(kb.row.name)
            found = await self._known(kb, received, facts) if ask or attempt else None
            if found is not None and found.sha256 == received.sha256:
                with suppress(DocumentNotFound):  # it was deleted just now: this is a new one then
                    return await self._same_bytes(kb, found, facts, priority, settle)
                continue
            document = _new_document(kb, received, facts, media_type, found)
            document.quota_key_id = self.knowledge_bases.principal.stores_for
            key = object_key(self.db.tenant_id, document.id, new_id())
            await self.objects.put(key, received.path)
            written = await self._write(kb, document, key, priority, settle, replaces=found)
            if written is not None:
                self.quotas.count(uploads=1, documents=int(found is None), bytes=received.size)
                return Uploaded(written, kb.row.name, created=True)
        raise UploadConflict

    async def _claim(self, scope: Scope) -> None:
        """Raises Forbidden for a key that is narrowed to a user, and a document that would be somebody else's."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                await claim(session, principal, scope)

    async def _known(self, kb: KnowledgeBaseView, received: ReceivedFile, facts: DocumentFacts) -> KnownDocument | None:
        """The document that the upload is about. One that has expired goes now: nothing of it is to come back."""
        async with self.db.transaction() as session:
            place = (self.db.tenant_id, kb.row.id, facts.scope.key())
            return await find_lasting(session, self.queue, *place, name=facts.external_id, sha256=received.sha256)

    async def _write(
        self,
        kb: KnowledgeBaseView,
        document: Document,
        key: str,
        priority: int,
        settle: Settle | None,
        *,
        replaces: KnownDocument | None,
    ) -> Document | None:
        """Row and job in one transaction; None, and the object gone, when another request was faster.

        Raises KnowledgeBaseNotFound, QuotaExceeded, and the Conflict that ``settle`` raises.
        """
        try:
            async with self.db.transaction() as session:
                repository = UploadRepository(session, self.db.tenant_id)
                written = None
                if await repository.stamped(kb.row.id, kb.row.stamp_number):
                    if replaces and kb.row.pending_filter is not None:
                        await RestampRepository(session, self.db.tenant_id, kb.row.id).advance(document.id)
                    write = repository.begin_version if replaces else repository.add
                    written = await write(document, key, by=Actor.of(self.knowledge_bases.principal))
                if written is not None:
                    if replaces and replaces.expires_at != written.expires_at:
                        await DocumentRepository(session, self.db.tenant_id).restamp_expiry(written)
                    await self.quotas.require_room(session, replaces=replaces is not None)
                    await self.documents.enqueue(session, written, priority)
                    if settle is not None:
                        await settle(session, written.id)
        except (QuotaExceeded, Conflict):
            await self.objects.delete(key)
            raise
        except IntegrityError as exc:
            await self.objects.delete(key)
            raise KnowledgeBaseNotFound from exc  # it was deleted while the file came in
        if written is None:
            await self.objects.delete(key)
        return written

    async def _same_bytes(
        self, kb: KnowledgeBaseView, found: KnownDocument, facts: DocumentFacts, priority: int, settle: Settle | None
    ) -> Uploaded:
        """Answer with the document that is there; other facts are applied, a failed one is tried again."""
        given: dict[str, Any] = {"metadata": facts.metadata, "title": facts.title}
        given |= {"source_uri": facts.source_uri, "source_created_at": facts.source_created_at}
        given |= {"dynamic": facts.dynamic, "expires_at": facts.expires_at}
        changes = {name: value for name, value in given.items() if value is not None}
        document = await self.documents.update(kb.row.name, found.id, changes, retries=False)
        if settle is not None:
            async with self.db.transaction() as session:
                await settle(session, document.id)
        if document.status != "failed":
            return Uploaded(document, kb.row.name, created=False)
        async with self.db.transaction() as session:
            repository = DocumentRepository(session, self.db.tenant_id)
            current = await repository.get(kb.row.id, document.id, lock=True)
            if current is not None and (current.version, current.status) == (document.version, "failed"):
                await repository.restart(document.id, encoding=facts.encoding)
                await self.documents.enqueue(session, document, priority)
                await self.documents.record(session, Action.DOCUMENT_REINDEX, document)
        return Uploaded(await self.documents.get(kb.row.name, found.id), kb.row.name, created=True)


def _new_document(
    kb: KnowledgeBaseView, received: ReceivedFile, facts: DocumentFacts, media_type: str, replaces: KnownDocument | None
) -> Document:
    """The row of a first version, or what the next one changes in ``replaces``."""
    document = Document(
        tenant_id=kb.row.tenant_id,
        kb_id=kb.row.id,
        id=replaces.id if replaces else new_id(),
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
        dynamic=bool(facts.dynamic),
        expires_at=facts.expires_at,
        attributes={**(facts.metadata or {}), **kb.row.stamp},
        stamp_number=kb.row.stamp_number,
        created_at=replaces.created_at if replaces else datetime.now(UTC),
    )
    document.filterable = filterable(document)
    return document

"""Upload: object, then row and job in one transaction."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import Actor, AuditAction
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.access import claim_scope
from app.documents.expiry import find_unexpired_document
from app.documents.metadata_backfill.repository import MetadataBackfillRepository
from app.documents.repository import DocumentRepository
from app.documents.scopes import DocumentScope
from app.documents.service import DocumentService
from app.documents.types import (
    CHUNKS_TYPE,
    BatchItemResult,
    DocumentFields,
    DocumentNotFound,
    ProvidedChunk,
    ReceivedFile,
    UploadConflict,
    UploadResult,
    build_document_filter_metadata,
    build_object_key,
)
from app.documents.upload.media_type import detect_media_type
from app.documents.upload.multipart import receive_form, spool_text
from app.documents.upload.provided_chunks import encode_chunks
from app.documents.write_repository import ExistingDocument, UploadRepository
from app.errors import ConflictError, InvalidInputError, TooLargeError, TooManyRequestsError, UnsupportedMediaTypeError
from app.ids import generate_id
from app.inference.embedding import EmbeddingIdentity
from app.jobs.queue import BULK, INTERACTIVE, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectStore
from app.quotas.service import QuotaService
from app.quotas.types import QuotaExceeded

# By name or id, or as the caller has found it just now.
KnowledgeBaseReference = str | KnowledgeBaseView
# What else is written of a document, in the transaction that writes it. Raises DocumentNotFound for one that is gone.
OnStored = Callable[[Session, UUID], Awaitable[None]]
MAX_ATTEMPTS = 5
# So little is stored before it is asked whether it is there already: mostly it is not, and asking costs more.
MAX_UNCHECKED_BYTES = 64 * 1024
MAX_FILES = 100


@dataclass(frozen=True, slots=True)
class UploadService:
    """How documents come in."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    documents: DocumentService
    objects: ObjectStore
    queue: JobQueue
    parseable_types: Collection[str]
    plugin_types: Mapping[str, Collection[str]]
    quotas: QuotaService

    async def upload(
        self,
        reference: KnowledgeBaseReference,
        body: AsyncIterator[bytes],
        boundary: bytes,
        parse_fields: Callable[[Mapping[str, str]], DocumentFields],
    ) -> UploadResult:
        """Store a streamed form's file and queue it for ingestion; nothing of the body is read before the checks.

        Raises KnowledgeBaseNotFound, IndexMismatch, UploadTooLarge, EmptyUpload, EncryptedUpload, UnsupportedFileType,
        QuotaExceeded.
        """
        kb = await self._find_knowledge_base(reference)
        async with receive_form(body, boundary, max_bytes=self.quotas.upload_limit_bytes) as form:
            return await self._store(kb, form.files[0], parse_fields(form.fields), INTERACTIVE)

    async def upload_many(
        self,
        reference: KnowledgeBaseReference,
        body: AsyncIterator[bytes],
        boundary: bytes,
        parse_fields: Callable[[Mapping[str, str]], DocumentFields],
    ) -> list[BatchItemResult]:
        """The same for many files of one form, in its order; the other fields hold for all of them.

        What is wrong with one file is its verdict and stops no other. Raises KnowledgeBaseNotFound, IndexMismatch;
        UploadTooLarge for all of them together; InvalidInputError for a field that can hold for one document alone.
        """
        kb = await self._find_knowledge_base(reference)
        async with receive_form(body, boundary, max_bytes=self.quotas.upload_limit_bytes, max_files=MAX_FILES) as form:
            fields = parse_fields(form.fields)
            for name in ("external_id", "title"):
                if getattr(fields, name) is not None:
                    raise InvalidInputError(f"Many files cannot share one {name}.", loc=("body", name))
            return [await self._upload_file(kb, file, fields) for file in form.files]

    async def _upload_file(self, kb: KnowledgeBaseView, file: ReceivedFile, fields: DocumentFields) -> BatchItemResult:
        try:
            return BatchItemResult(file.filename, await self._store(kb, file, fields, BULK))
        except (
            InvalidInputError,
            TooLargeError,
            TooManyRequestsError,
            UnsupportedMediaTypeError,
            ConflictError,
        ) as exc:
            return BatchItemResult(file.filename, error=exc)

    async def upload_text(
        self, reference: KnowledgeBaseReference, text: str, fields: DocumentFields, *, media_type: str | None
    ) -> UploadResult:
        """The same for a text in hand; without a media type a line like ``# Title`` makes it Markdown."""
        kb = await self._find_knowledge_base(reference)
        name = fields.title or fields.external_id or "text"
        async with spool_text(text, filename=name, media_type=media_type) as received:
            return await self._store(kb, received, replace(fields, encoding="utf-8"), INTERACTIVE)

    async def upload_chunks(
        self, reference: KnowledgeBaseReference, chunks: Sequence[ProvidedChunk], fields: DocumentFields
    ) -> UploadResult:
        """The same for chunks that were cut elsewhere; their vectors are checked here. Raises InvalidInputError too."""
        kb = await self._find_knowledge_base(reference)
        model = EmbeddingIdentity.from_index_identity(kb.index.identity)
        enforced_keys = kb.row.enforced_metadata.keys()  # stamped on all that goes in, over what the caller says
        body = await asyncio.to_thread(encode_chunks, chunks, model=model, excluded_keys=enforced_keys)
        name = fields.title or fields.external_id or "chunks"
        async with spool_text(body, filename=name, media_type=CHUNKS_TYPE) as received:
            return await self._store(kb, received, fields, INTERACTIVE, media_type=CHUNKS_TYPE)

    async def upload_received_file(
        self,
        reference: KnowledgeBaseReference,
        received: ReceivedFile,
        fields: DocumentFields,
        priority: int,
        on_stored: OnStored | None,
    ) -> UploadResult:
        """The same for a file that is on the local disk already; where ``on_stored`` raises, nothing is stored."""
        return await self._store(
            await self._find_knowledge_base(reference), received, fields, priority, on_stored=on_stored
        )

    async def _find_knowledge_base(self, reference: KnowledgeBaseReference) -> KnowledgeBaseView:
        kb = reference if isinstance(reference, KnowledgeBaseView) else await self.knowledge_bases.find(reference)
        kb.require_documents()
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        return kb

    async def _store(
        self,
        kb: KnowledgeBaseView,
        received: ReceivedFile,
        fields: DocumentFields,
        priority: int,
        *,
        media_type: str | None = None,
        on_stored: OnStored | None = None,
    ) -> UploadResult:
        fields = replace(fields, scope=fields.scope.with_tenant(self.db.tenant_id))
        if media_type is None:
            media_type = await asyncio.to_thread(detect_media_type, received, self.parseable_types, self.plugin_types)
        await self._claim_scope(fields.scope)
        needs_lookup = received.size > MAX_UNCHECKED_BYTES or fields.external_id is not None
        for attempt in range(MAX_ATTEMPTS):
            if attempt:  # it may have got another stamp
                kb = await self.knowledge_bases.find(kb.row.name)
            existing = await self._find_existing(kb, received, fields) if needs_lookup or attempt else None
            if existing is not None and existing.sha256 == received.sha256:
                with suppress(DocumentNotFound):  # it was deleted just now: this is a new one then
                    return await self._reuse_existing(kb, existing, fields, priority, on_stored)
                continue
            document = _build_document(kb, received, fields, media_type, existing)
            document.quota_key_id = self.knowledge_bases.principal.storage_quota_key_id
            key = build_object_key(self.db.tenant_id, document.id, generate_id())
            await self.objects.put(key, received.path)
            written = await self._write(kb, document, key, priority, on_stored, replaces=existing)
            if written is not None:
                self.quotas.count(uploads=1, documents=int(existing is None), bytes=received.size)
                return UploadResult(written, kb.row.name, created=True)
        raise UploadConflict

    async def _claim_scope(self, scope: DocumentScope) -> None:
        """Raises ForbiddenError for a key that is narrowed to a user, and a document that would be somebody else's."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                await claim_scope(session, principal, scope)

    async def _find_existing(
        self, kb: KnowledgeBaseView, received: ReceivedFile, fields: DocumentFields
    ) -> ExistingDocument | None:
        """The document that the upload is about. One that has expired goes now: nothing of it is to come back."""
        async with self.db.transaction() as session:
            location = (self.db.tenant_id, kb.row.id, fields.scope.to_key())
            return await find_unexpired_document(
                session, self.queue, *location, external_id=fields.external_id, sha256=received.sha256
            )

    async def _write(
        self,
        kb: KnowledgeBaseView,
        document: DocumentRow,
        key: str,
        priority: int,
        on_stored: OnStored | None,
        *,
        replaces: ExistingDocument | None,
    ) -> DocumentRow | None:
        """Row and job in one transaction; None, and the object gone, when another request was faster.

        Raises KnowledgeBaseNotFound, QuotaExceeded, and the ConflictError that ``on_stored`` raises.
        """
        try:
            async with self.db.transaction() as session:
                repository = UploadRepository(session, self.db.tenant_id)
                written = None
                if await repository.has_metadata_revision(kb.row.id, kb.row.metadata_revision):
                    if replaces and kb.row.pending_metadata_filter is not None:
                        await MetadataBackfillRepository(session, self.db.tenant_id, kb.row.id).apply_to_document(
                            document.id
                        )
                    write = repository.begin_version if replaces else repository.add
                    written = await write(document, key, actor=Actor.from_principal(self.knowledge_bases.principal))
                if written is not None:
                    if replaces and replaces.expires_at != written.expires_at:
                        await DocumentRepository(session, self.db.tenant_id).update_search_expiry(written)
                    await self.quotas.check_storage(session, replaces=replaces is not None)
                    await self.documents.enqueue(session, written, priority)
                    if on_stored is not None:
                        await on_stored(session, written.id)
        except (QuotaExceeded, ConflictError):
            await self.objects.delete(key)
            raise
        except IntegrityError as exc:
            await self.objects.delete(key)
            raise KnowledgeBaseNotFound from exc  # it was deleted while the file came in
        if written is None:
            await self.objects.delete(key)
        return written

    async def _reuse_existing(
        self,
        kb: KnowledgeBaseView,
        existing: ExistingDocument,
        fields: DocumentFields,
        priority: int,
        on_stored: OnStored | None,
    ) -> UploadResult:
        """Answer with the document that is there; other facts are applied, a failed one is tried again."""
        provided: dict[str, Any] = {"metadata": fields.metadata, "title": fields.title}
        provided |= {"source_uri": fields.source_uri, "source_created_at": fields.source_created_at}
        provided |= {"dynamic": fields.dynamic, "expires_at": fields.expires_at}
        changes = {name: value for name, value in provided.items() if value is not None}
        document = await self.documents.update(kb.row.name, existing.id, changes, retry_failed=False)
        if on_stored is not None:
            async with self.db.transaction() as session:
                await on_stored(session, document.id)
        if document.status != "failed":
            return UploadResult(document, kb.row.name, created=False)
        async with self.db.transaction() as session:
            repository = DocumentRepository(session, self.db.tenant_id)
            current = await repository.get(kb.row.id, document.id, lock=True)
            if current is not None and (current.version, current.status) == (document.version, "failed"):
                await repository.restart(document.id, encoding=fields.encoding)
                await self.documents.enqueue(session, document, priority)
                await self.documents.record_event(session, AuditAction.DOCUMENT_REINDEX, document)
        return UploadResult(await self.documents.get(kb.row.name, existing.id), kb.row.name, created=True)


def _build_document(
    kb: KnowledgeBaseView,
    received: ReceivedFile,
    fields: DocumentFields,
    media_type: str,
    replaces: ExistingDocument | None,
) -> DocumentRow:
    """The row of a first version, or what the next one changes in ``replaces``."""
    document = DocumentRow(
        tenant_id=kb.row.tenant_id,
        kb_id=kb.row.id,
        id=replaces.id if replaces else generate_id(),
        external_id=fields.external_id,
        source=received.filename,
        title=fields.title,
        source_uri=fields.source_uri,
        source_created_at=fields.source_created_at,
        media_type=media_type,
        encoding=fields.encoding,
        bytes=received.size,
        sha256=received.sha256,
        scope_level=fields.scope.determine_level().value,
        scope_key=fields.scope.to_key(),
        user_id=fields.scope.user_id,
        chat_id=fields.scope.chat_id,
        agent_id=fields.scope.agent_id,
        dynamic=bool(fields.dynamic),
        expires_at=fields.expires_at,
        attributes={**(fields.metadata or {}), **kb.row.enforced_metadata},
        metadata_revision=kb.row.metadata_revision,
        created_at=replaces.created_at if replaces else datetime.now(UTC),
    )
    document.filterable = build_document_filter_metadata(document)
    return document

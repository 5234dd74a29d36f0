"""Uploads: store the original in the object store, then the document row and the ingestion job in one transaction."""

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
from app.documents.upload.media_type import detect_media_type, require_text_type
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

# Reference to a knowledge base: its name, its id, or the knowledge base that the caller has loaded already.
KnowledgeBaseReference = str | KnowledgeBaseView
# Callback that writes further rows in the transaction that stores the document. It raises DocumentNotFound if the
# document was deleted.
OnStored = Callable[[Session, UUID], Awaitable[None]]
MAX_ATTEMPTS = 5
# Files up to this size are put into the object store without a lookup of an existing document. Most files are new, and
# the lookup takes longer than a superfluous put.
MAX_UNCHECKED_BYTES = 64 * 1024
MAX_FILES = 100


@dataclass(frozen=True, slots=True)
class UploadService:
    """Use cases that store uploads as documents."""

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
        """Store the file of a streamed form and enqueue its ingestion.

        The knowledge base is checked before the first byte of the body is read.

        Args:
            reference: The knowledge base.
            body: The request's body.
            boundary: The boundary of the form's parts.
            parse_fields: Parses the form's other fields.

        Returns:
            The document, which may have existed already.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base searches an external service and stores no documents.
            IndexMismatch: No configured embedding model fits the search index.
            UploadTooLarge: The file is larger than the limit.
            EmptyUpload: The file has no bytes.
            EncryptedUpload: The file is encrypted.
            UnsupportedFileType: No parser reads the file.
            QuotaExceeded: The upload exceeds a quota of the tenant or of the API key.
            ForbiddenError: The caller's key is restricted to a user who may not write to the scope.
            UploadConflict: Parallel uploads of the same document were faster several times.
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
        """Store all files of a streamed form, in its order. The form's other fields apply to every file.

        An error of one file becomes the result of that file. The other files are stored.

        Args:
            reference: The knowledge base.
            body: The request's body.
            boundary: The boundary of the form's parts.
            parse_fields: Parses the form's other fields.

        Returns:
            One result per file.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            IndexMismatch: No configured embedding model fits the search index.
            UploadTooLarge: All files together are larger than the limit.
            InvalidInputError: A field can apply to one document only, such as the external id.
        """
        kb = await self._find_knowledge_base(reference)
        async with receive_form(body, boundary, max_bytes=self.quotas.upload_limit_bytes, max_files=MAX_FILES) as form:
            fields = parse_fields(form.fields)
            for name in ("external_id", "title"):
                if getattr(fields, name) is not None:
                    raise InvalidInputError(
                        f"Several files cannot share one {name}. Remove the field or send one file.", loc=("body", name)
                    )
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
        """Store a text as a document and enqueue its ingestion.

        Args:
            reference: The knowledge base.
            text: The text.
            fields: The document's fields.
            media_type: The media type. None detects Markdown by its headings, and otherwise uses plain text.

        Returns:
            The document.

        Raises:
            InvalidInputError: The text contains characters that cannot be stored, or no parser reads texts of the media
                type. ``upload`` lists the other errors.
        """
        kb = await self._find_knowledge_base(reference)
        name = fields.title or fields.external_id or "text"
        if media_type is not None:
            media_type = require_text_type(media_type, self.parseable_types, self.plugin_types)
        async with spool_text(text, filename=name, media_type=media_type) as received:
            fields = replace(fields, encoding="utf-8")
            return await self._store(kb, received, fields, INTERACTIVE, media_type=media_type)

    async def upload_chunks(
        self, reference: KnowledgeBaseReference, chunks: Sequence[ProvidedChunk], fields: DocumentFields
    ) -> UploadResult:
        """Store provided chunks as a document and enqueue its ingestion.

        Args:
            reference: The knowledge base.
            chunks: The chunks. Their vectors must fit the knowledge base's model.
            fields: The document's fields.

        Returns:
            The document.

        Raises:
            InvalidInputError: A text or a vector is not valid. ``upload`` lists the other errors.
        """
        kb = await self._find_knowledge_base(reference)
        model = EmbeddingIdentity.from_index_identity(kb.index.identity)
        enforced_keys = kb.row.enforced_metadata.keys()  # enforced metadata overrides the caller's values
        body = await asyncio.to_thread(encode_chunks, chunks, model=model, excluded_keys=enforced_keys)
        name = fields.title or fields.external_id or "chunks"
        async with spool_text(body, filename=name, media_type=CHUNKS_TYPE) as received:
            uploaded = await self._store(kb, received, fields, INTERACTIVE, media_type=CHUNKS_TYPE)
        return replace(uploaded, provided_chunks=len(chunks))

    async def upload_received_file(
        self,
        reference: KnowledgeBaseReference,
        received: ReceivedFile,
        fields: DocumentFields,
        priority: int,
        on_stored: OnStored | None,
    ) -> UploadResult:
        """Store a file that is on the local disk already, and enqueue its ingestion.

        Args:
            reference: The knowledge base.
            received: The file.
            fields: The document's fields.
            priority: The priority of the ingestion job.
            on_stored: Writes further rows in the same transaction. If it raises an error, nothing is stored.

        Returns:
            The document. Raises the errors of ``upload``.
        """
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
            if attempt:  # the enforced metadata may have changed
                kb = await self.knowledge_bases.find(kb.row.name)
            existing = await self._find_existing(kb, received, fields) if needs_lookup or attempt else None
            if existing is not None and existing.sha256 == received.sha256:
                with suppress(DocumentNotFound):  # if the existing document was deleted since, the upload is new
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
        """Check that a key restricted to a user may write to the scope. Raises ForbiddenError."""
        principal = self.knowledge_bases.principal
        if principal.user_id is not None:
            async with self.db.transaction() as session:
                await claim_scope(session, principal, scope)

    async def _find_existing(
        self, kb: KnowledgeBaseView, received: ReceivedFile, fields: DocumentFields
    ) -> ExistingDocument | None:
        """Return the stored document with the upload's identity (external id or content hash).

        An expired document is deleted, so that the new document does not get its fields.
        """
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
        """Write the row and the job in one transaction; return None if another request was faster.

        If nothing is written, the object is deleted. Raises KnowledgeBaseNotFound, QuotaExceeded, and the ConflictError
        of ``on_stored``.
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
            raise KnowledgeBaseNotFound from exc  # the knowledge base was deleted during the upload
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
        """Return the existing document with the upload's fields applied, and start ingestion again if it has failed."""
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
    """Return the row of a first version, or the values of the next version of ``replaces``."""
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

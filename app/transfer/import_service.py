"""Import of an archive into a knowledge base. Each document becomes visible in one transaction, or not at all."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import Actor, AuditAction, AuditEvent
from app.db.models.images import DocumentImage
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.content.image_repository import ImageRepository
from app.documents.expiry import find_unexpired_document
from app.documents.scopes import DocumentScope
from app.documents.types import UploadConflict, build_document_filter_metadata, build_object_key
from app.documents.write_repository import UploadRepository
from app.ids import generate_id
from app.inference.embedding import Embedder
from app.ingestion.embedding import TokenUsage, record_usage
from app.ingestion.repository import IndexedDocument, IngestionRepository
from app.ingestion.version_repository import VersionRepository
from app.jobs.queue import JobQueue
from app.knowledge_bases.model_choice import end_model_choice
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseNotFound, KnowledgeBaseView
from app.lexical.analyzers import is_same_analyzer
from app.object_store import ObjectStore
from app.quotas.service import QuotaService
from app.quotas.storage_quota import StorageQuota
from app.quotas.types import NO_KEY
from app.tenant_slots import TenantSlots
from app.threads import run_in_thread
from app.transfer.archive_format import (
    CHECKSUMS,
    MANIFEST,
    ORIGINAL,
    SKIPPED_DOCUMENTS,
    ArchiveManifest,
    DocumentRecord,
    build_image_name,
    parse_manifest,
)
from app.transfer.correction_transfer import import_merges, import_splits
from app.transfer.document_reader import DocumentStructure, ImportedDocument, build_imported_document, read_text
from app.transfer.member_reader import (
    IncomingDocument,
    read_incoming_document,
    read_small_member,
    receive_files,
    skip_files,
)
from app.transfer.reader_pool import ArchiveReaderPool
from app.transfer.reply_transfer import import_replies
from app.transfer.repository import TransferRepository
from app.transfer.slots import ImportCapacity
from app.transfer.tar import TarReader
from app.transfer.types import ArchiveDamaged, ArchiveMismatch, ImportResult
from app.warnings import ServiceWarning, WarningCode

NO_GROWTH = {"documents": 0, "stored_bytes": 0, "chunks": 0}
REINDEXED_MESSAGE = "The knowledge base was reindexed during the import. Import the archive again."


@dataclass(frozen=True, slots=True)
class ImportService:
    """Use cases of the import of archives. ``capacity`` limits the documents in memory, over all callers."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    queue: JobQueue
    quotas: QuotaService
    slots: TenantSlots
    capacity: ImportCapacity
    readers: ArchiveReaderPool
    max_characters: int

    async def find_target(self, reference: str) -> KnowledgeBaseView:
        """Return the knowledge base that an archive is imported into.

        Raises KnowledgeBaseNotFound, NoDocumentStore, ForbiddenError.
        """
        self.knowledge_bases.require_unrestricted_key()
        kb = await self.knowledge_bases.find(reference)
        kb.require_documents()
        return kb

    async def import_archive(self, kb: KnowledgeBaseView, body: AsyncIterator[bytes]) -> ImportResult:
        """Import an archive, or its manifest with some of its documents. Existing documents are skipped.

        Documents that were imported before an error remain.

        Args:
            kb: The knowledge base.
            body: Bytes of the archive.

        Returns:
            Numbers of documents and chunks.

        Raises:
            TooManyTransfers: The tenant runs too many imports. Nothing was read.
            TransfersBusy: The service runs too many imports. Nothing was read.
            IndexMismatch: The service does not have the embedding model of the knowledge base, or a reindex replaced
                its search index.
            ArchiveMismatch: Another embedding model or analyzer made the archive.
            ArchiveDamaged: The archive is not valid.
            ArchiveTruncated: The archive ends too early.
            ArchiveVersionUnsupported: A newer version of Carrel wrote the archive.
            ArchiveTooLarge: A part of the archive exceeds a limit.
            TooManyTerms: A document has too many different terms.
            QuotaExceeded: A quota of the tenant or the API key is used up.
            UploadConflict: The knowledge base was changed during the import.
            KnowledgeBaseNotFound: The knowledge base was deleted during the import.
            TooManyCorrections: The knowledge base has too many corrections of entities.
        """
        async with self.slots.acquire(self.db.tenant_id):
            return await self._import_all(kb, body)

    async def _import_all(self, kb: KnowledgeBaseView, body: AsyncIterator[bytes]) -> ImportResult:
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        tar = TarReader(body)
        first = await tar.read_next_member()
        if first is None or first.name != MANIFEST:
            raise ArchiveDamaged("The archive does not begin with its manifest.")
        kb = await self._check_manifest(kb, parse_manifest(await read_small_member(tar, first)))
        result = ImportResult()
        while (member := await tar.read_next_member()) is not None:
            if member.name in (SKIPPED_DOCUMENTS, CHECKSUMS):
                continue
            incoming = await read_incoming_document(tar, member, max_original_bytes=self.quotas.upload_limit_bytes)
            await self._import_document(kb, incoming, tar, result)
        return result

    @property
    def author(self) -> str:
        """Author of the imported corrections."""
        key_id = self.knowledge_bases.principal.key_id
        return "operator" if key_id is None else str(key_id)

    async def _check_manifest(self, kb: KnowledgeBaseView, manifest: ArchiveManifest) -> KnowledgeBaseView:
        """Check that the models of the archive match, and copy its mean chunk length into an empty search index.

        With the same mean chunk length, the BM25 term weights are the same as in the exported knowledge base. Raises
        ArchiveMismatch.
        """
        for name, expected in kb.index.identity.items():
            stored = manifest.identity.get(name)
            # The text is analyzed again, so an archive of another version of the analyzer is as good.
            if stored != expected and not (name == "analyzer" and is_same_analyzer(stored, expected)):
                actual = str(stored)[:100]
                raise ArchiveMismatch(
                    f"The archive was made with {name} {actual!r}, but the knowledge base has {expected!r}. "
                    "Import it into a knowledge base with the same settings."
                )
        async with self.db.transaction() as session:
            location = (self.db.tenant_id, kb.row.id, kb.index.id)
            await TransferRepository(session, *location).seed_average_length(manifest.average_length)
            # The service keeps the model of the archive. Otherwise the rest of the archive would no longer match.
            await end_model_choice(session, self.db.tenant_id, kb.index.id)
            if manifest.merges:
                await KnowledgeBaseRepository(session, self.db.tenant_id).lock(kb.row.id)
                if await import_merges(session, self.db.tenant_id, kb.row.id, manifest.merges, self.author):
                    event = AuditEvent(AuditAction.KNOWLEDGE_BASE_ENTITY_MERGE, [kb.row.id], kb.row.id)
                    await self.knowledge_bases.record_event(session, event)
            return await self.knowledge_bases.find_in_session(session, kb.row.name)

    async def _import_document(
        self, kb: KnowledgeBaseView, incoming: IncomingDocument, tar: TarReader, result: ImportResult
    ) -> None:
        scope = _build_scope(incoming.record, self.db.tenant_id)
        async with self.db.transaction() as session:
            location, digest = (
                (self.db.tenant_id, kb.row.id, scope.to_key()),
                bytes.fromhex(incoming.record.original.sha256),
            )
            existing = await find_unexpired_document(
                session, self.queue, *location, external_id=incoming.record.external_id, sha256=digest
            )
        if existing is not None:
            await skip_files(tar, incoming)
            is_same = existing.sha256 == digest
            result.existing += is_same
            result.conflicts += not is_same
            return
        async with receive_files(tar, incoming) as folder, self.capacity.acquire(incoming.size):
            embedder = kb.get_embedder(self.knowledge_bases.settings.embedders)
            document_import = _DocumentImport(self, kb, incoming.record, scope, folder, embedder)
            chunks = await document_import.store()
        result.documents += chunks is not None
        result.existing += chunks is None
        result.chunks += chunks or 0


def _build_scope(record: DocumentRecord, tenant_id: UUID) -> DocumentScope:
    return DocumentScope(record.user_id, record.chat_id, record.agent_id).with_tenant(tenant_id)


@dataclass(frozen=True, slots=True)
class _DocumentImport:
    """The import of one document, from its files to its rows."""

    service: ImportService
    kb: KnowledgeBaseView
    record: DocumentRecord
    scope: DocumentScope
    folder: Path
    embedder: Embedder
    object_keys: list[str] = field(default_factory=list)

    async def store(self) -> int | None:
        """Store the document's objects, then all its rows in one transaction.

        Return the number of chunks, or None if another request has stored the same document.
        """
        content = await self._read_content()
        document = self._build_document()
        try:
            key = await self._put_object(document, ORIGINAL)
            images = [await self._store_image(document, number) for number in range(len(self.record.images))]
            async with self.service.db.transaction() as session:
                is_written = await self._write_rows(session, document, key, images, content)
        except BaseException as exc:
            await self._delete_objects()
            if isinstance(exc, IntegrityError):
                raise KnowledgeBaseNotFound from exc  # it was deleted during the import
            raise
        if not is_written:
            await self._delete_objects()
            return None
        self.service.quotas.count(uploads=1, documents=1, bytes=document.bytes)
        return len(content.drafts)

    async def _read_content(self) -> ImportedDocument:
        """Read the records through a sandboxed process, then add vectors and lexical entries."""
        max_characters, image_numbers = self.service.max_characters, [image.number for image in self.record.images]
        text = await run_in_thread(read_text, self.folder, max_characters=max_characters)
        structure = DocumentStructure(text, self.kb.row.enforced_metadata.keys())
        records = self.service.readers.read_records(
            self.folder, image_numbers=image_numbers, max_characters=max_characters
        )
        async with aclosing(records):
            await structure.add_records(records, image_numbers)
        return await run_in_thread(build_imported_document, self.record, structure, self.folder, self.kb, self.embedder)

    async def _write_rows(
        self, session: Session, document: DocumentRow, key: str, images: list[DocumentImage], content: ImportedDocument
    ) -> bool:
        tenant_id, kb, principal = self.service.db.tenant_id, self.kb, self.service.knowledge_bases.principal
        uploads, bases = UploadRepository(session, tenant_id), KnowledgeBaseRepository(session, tenant_id)
        if self.record.splits:
            await bases.lock(kb.row.id)
        if not await uploads.has_metadata_revision(kb.row.id, kb.row.metadata_revision):
            raise UploadConflict("The knowledge base was changed during the import. Import the archive again.")
        row = await uploads.add(document, key, actor=Actor.from_principal(principal))
        if row is None:
            return False
        locked_indexes = await bases.lock_indexes(kb.row.id)
        if kb.index.id not in locked_indexes:
            raise IndexMismatch(REINDEXED_MESSAGE)
        indexed = self._build_indexed_document(content, images).recompute_weights(
            kb.index.avgdl, locked_indexes[kb.index.id].avgdl
        )
        await IngestionRepository(session, tenant_id).replace_document(
            row, indexed, index_id=kb.index.id, dim=kb.index.dim
        )
        if self.record.splits:
            await import_splits(session, tenant_id, kb.row.id, row.id, self.record.splits, self.service.author)
        await import_replies(session, tenant_id, row.id, content.replies)
        if content.language not in kb.languages:
            await bases.add_language(kb.index.id, content.language)
        finished = await VersionRepository(session, tenant_id).finish(
            row,
            kb.index.id,
            chunks=len(content.drafts),
            language=content.language,
            page_count=indexed.page_count,
            warnings=indexed.warnings,
            image_hashes=[image.sha256 for image in images],
        )
        if finished is None:
            raise IndexMismatch(REINDEXED_MESSAGE)
        await ImageRepository(session, tenant_id).add(images)
        await StorageQuota.from_principal(principal).check(session, NO_GROWTH, key_added=NO_GROWTH)
        # Usage is recorded last, because all imports and ingestions of the tenant wait for the same row of the day.
        key_id = principal.key_id or NO_KEY
        await record_usage(
            session, self.service.db, self.embedder, TokenUsage(), key_id=key_id, chunks=len(content.drafts)
        )
        return True

    def _build_indexed_document(self, content: ImportedDocument, images: list[DocumentImage]) -> IndexedDocument:
        by_number = {image.ordinal: image for image in images}
        return IndexedDocument(
            tree=content.tree,
            title=self.record.title,
            page_count=self.record.page_count,
            warnings=self._list_warnings(),
            language=content.language,
            drafts=content.drafts,
            token_counts=content.token_counts,
            vectors=content.vectors,
            unembedded=content.unembedded,
            entries=content.entries,
            graphs=content.graphs,
            images={chunk_number: by_number[number] for chunk_number, number in content.image_by_chunk.items()},
        )

    def _list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings of the archive. Those about extractors are replaced, because an import runs none."""
        extractors = self.kb.index_graph.extractors if self.kb.index_graph is not None else ()
        code = WarningCode.ENTITIES_NOT_EXTRACTED
        others = [each for each in self.record.warnings if each.code != code]
        warnings = [ServiceWarning(warning.code, warning.message, warning.count) for warning in others]
        if extractors:
            names = ", ".join(extractors)
            message = f"The import did not run the extractors of plugins: {names}. Reindex the document to run them."
            warnings.append(ServiceWarning(code, message))
        return warnings

    def _build_document(self) -> DocumentRow:
        record, kb = self.record, self.kb
        document = DocumentRow(
            tenant_id=kb.row.tenant_id,
            kb_id=kb.row.id,
            id=generate_id(),
            bytes=record.original.bytes,
            sha256=bytes.fromhex(record.original.sha256),
            scope_level=self.scope.determine_level().value,
            scope_key=self.scope.to_key(),
            attributes={**record.metadata, **kb.row.enforced_metadata},
            metadata_revision=kb.row.metadata_revision,
            **{name: getattr(record, name) for name in _COPIED_FIELDS},
        )
        document.quota_key_id = self.service.knowledge_bases.principal.storage_quota_key_id
        document.filterable = build_document_filter_metadata(document)
        return document

    async def _store_image(self, document: DocumentRow, position: int) -> DocumentImage:
        image = self.record.images[position]
        name = build_image_name(image.number)
        (part,) = (part for part in self.record.parts if part.name == name)
        return DocumentImage(
            tenant_id=document.tenant_id,
            document_id=document.id,
            version=1,
            ordinal=image.number,
            key=await self._put_object(document, name),
            media_type=image.media_type,
            bytes=part.bytes,
            width=image.width,
            height=image.height,
            sha256=bytes.fromhex(part.sha256),
        )

    async def _put_object(self, document: DocumentRow, name: str) -> str:
        key = build_object_key(document.tenant_id, document.id, generate_id())
        self.object_keys.append(key)
        await self.service.objects.put(key, self.folder / name)
        return key

    async def _delete_objects(self) -> None:
        for key in self.object_keys:
            await self.service.objects.delete(key)


_COPIED_FIELDS = (
    *("source", "title", "external_id", "source_uri", "source_created_at", "media_type", "encoding"),
    *("user_id", "chat_id", "agent_id", "dynamic", "expires_at", "created_at"),
)

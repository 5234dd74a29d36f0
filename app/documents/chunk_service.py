"""Changes of single chunks that were uploaded, and deletion of all chunks of a document that is kept."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.exc import IntegrityError

from app.audit.types import AuditAction
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.chunk_repository import DocumentChunkRepository
from app.documents.repository import DocumentRepository
from app.documents.service import FINAL_STATUSES, DocumentService
from app.documents.types import (
    CHUNKS_TYPE,
    ChunkNotFound,
    ChunksNotProvided,
    DocumentInProgress,
    DocumentNotFound,
    DuplicateIdentity,
    LastChunk,
    ProvidedChunk,
    UploadConflict,
    build_chunk_id,
    build_chunk_ids,
    build_object_key,
)
from app.documents.upload.provided_chunks import edit_chunks, encode_chunks
from app.ids import generate_id
from app.inference.embedding import EmbeddingIdentity
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.service import PURGE_JOB, KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.object_store import ObjectStore
from app.quotas.service import QuotaService
from app.quotas.types import QuotaExceeded
from app.temp_files import create_temp_directory, create_temp_file

MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ChangedChunks:
    """Document whose chunks were changed, and the ids of its chunks in order."""

    document: DocumentRow
    knowledge_base_name: str
    chunk_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class _StoredChunks:
    document: DocumentRow
    key: str
    live_ordinals: Sequence[int]


@dataclass(frozen=True, slots=True)
class DocumentChunkService:
    """Use cases that change the chunks of documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    documents: DocumentService
    objects: ObjectStore
    queue: JobQueue
    quotas: QuotaService

    async def put_chunk(self, reference: str, document_id: UUID, chunk_id: UUID, chunk: ProvidedChunk) -> ChangedChunks:
        """Replace one uploaded chunk, or restore a deleted one, and ingest the document again.

        All chunks keep their ids. Searches see the former chunk until the document is ready.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document, whose chunks were uploaded.
            chunk_id: The chunk.
            chunk: New content of the chunk.

        Returns:
            The document, and the ids of its chunks.

        Raises:
            InvalidInputError: The text is empty, or the vector does not fit.
            ChunkNotFound: The document has no such chunk.
            ChunksNotProvided: The service has made the chunks.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            ForbiddenError: The caller may not change the document.
            IndexMismatch: No configured embedding model fits the search index.
            QuotaExceeded: The change exceeds a storage quota.
            UploadConflict: Parallel changes were faster several times.
        """
        kb = await self._find_knowledge_base(reference)
        model = EmbeddingIdentity.from_index_identity(kb.index.identity)
        excluded_keys = kb.row.enforced_metadata.keys()
        encoded = await asyncio.to_thread(
            encode_chunks, [chunk], model=model, excluded_keys=excluded_keys, single_loc=("body",)
        )
        return await self._edit(kb, reference, document_id, chunk_id, encoded)

    async def delete_chunk(self, reference: str, document_id: UUID, chunk_id: UUID) -> ChangedChunks:
        """Delete one uploaded chunk, and ingest the document again.

        The other chunks keep their indexes and ids.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document, whose chunks were uploaded.
            chunk_id: The chunk.

        Returns:
            The document, and the ids of its remaining chunks.

        Raises:
            LastChunk: The document has no other chunk. ``put_chunk`` lists the other errors.
        """
        return await self._edit(await self._find_knowledge_base(reference), reference, document_id, chunk_id, None)

    async def delete_all_chunks(self, reference: str, document_id: UUID) -> DocumentRow:
        """Delete all chunks of a document, in all search indexes. The document, its text and its tree stay.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.

        Returns:
            The document, without chunks.

        Raises:
            DocumentNotFound: The document does not exist, or the caller may not read it.
            ForbiddenError: The caller may not change the document.
            DocumentInProgress: The document is being ingested.
        """
        async with self.db.transaction() as session:
            document = await self.documents.lock_writable(session, reference, document_id)
            if document.status not in FINAL_STATUSES:
                raise DocumentInProgress
            await DocumentChunkRepository(session, self.db.tenant_id).delete_chunks(document)
            await session.refresh(document)
            await self.documents.record_event(session, AuditAction.DOCUMENT_PREPARE_REINDEX, document)
        return document

    async def _find_knowledge_base(self, reference: str) -> KnowledgeBaseView:
        kb = await self.knowledge_bases.find(reference)
        kb.require_documents()
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        return kb

    async def _edit(
        self, kb: KnowledgeBaseView, reference: str, document_id: UUID, chunk_id: UUID, encoded: str | None
    ) -> ChangedChunks:
        for _ in range(MAX_ATTEMPTS):
            stored = await self._load(reference, document_id)
            find_ordinal = _create_ordinal_finder(stored.document, chunk_id)
            with create_temp_directory("upload") as folder:
                path = create_temp_file(folder, "chunks")
                await self.objects.get(stored.key, path)
                body = await asyncio.to_thread(path.read_bytes)
                edited = await asyncio.to_thread(
                    edit_chunks, body, encoded, find_ordinal=find_ordinal, live_ordinals=stored.live_ordinals
                )
                if edited is None:
                    raise ChunkNotFound
                if not edited.ordinals:
                    raise LastChunk
                content = edited.body.encode()
                await asyncio.to_thread(path.write_bytes, content)
                key = build_object_key(self.db.tenant_id, document_id, generate_id())
                await self.objects.put(key, path)
            document = await self._store(reference, stored, key, content)
            if document is not None:
                return ChangedChunks(document, kb.row.name, build_chunk_ids(document, edited.ordinals))
        raise UploadConflict

    async def _load(self, reference: str, document_id: UUID) -> _StoredChunks:
        async with self.db.transaction() as session:
            document = await self.documents.lock_writable(session, reference, document_id)
            if document.media_type != CHUNKS_TYPE:
                raise ChunksNotProvided
            key = await DocumentRepository(session, self.db.tenant_id).find_object_key(document.id, document.version)
            if key is None:
                raise DocumentNotFound
            ordinals: Sequence[int] = ()
            if document.status == "ready":
                ordinals = await DocumentChunkRepository(session, self.db.tenant_id).list_ordinals(document)
        return _StoredChunks(document, key, ordinals)

    async def _store(self, reference: str, stored: _StoredChunks, key: str, content: bytes) -> DocumentRow | None:
        """Make an object the original of the newest version; return None if another request has changed it."""
        sha256 = hashlib.sha256(content).digest()
        document = None
        try:
            async with self.db.transaction() as session:
                repository = DocumentChunkRepository(session, self.db.tenant_id)
                document = await self.documents.lock_writable(session, reference, stored.document.id)
                if not await repository.replace_original(
                    document, stored.document.version, stored.key, key, sha256=sha256, size=len(content)
                ):
                    document = None
                else:
                    await self.quotas.check_storage(session, replaces=True)
                    payload = {"keys": [stored.key]}
                    await self.queue.enqueue(session, PURGE_JOB, tenant_id=self.db.tenant_id, payload=payload)
                    await DocumentRepository(session, self.db.tenant_id).restart(document.id)
                    await self.documents.enqueue(session, document, INTERACTIVE)
                    await self.documents.record_event(session, AuditAction.DOCUMENT_REPLACE, document)
                    await session.refresh(document)
        except (QuotaExceeded, DocumentNotFound):
            await self.objects.delete(key)
            raise
        except IntegrityError as exc:
            await self.objects.delete(key)
            raise DuplicateIdentity from exc
        if document is None:
            await self.objects.delete(key)
        return document


def _create_ordinal_finder(document: DocumentRow, chunk_id: UUID) -> Callable[[int], int | None]:
    def find_ordinal(count: int) -> int | None:
        ordinals = range(count)
        return next((at for at in ordinals if build_chunk_id(document.id, document.version, at) == chunk_id), None)

    return find_ordinal

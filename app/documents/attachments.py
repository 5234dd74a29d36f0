"""Files in knowledge bases: a kept file is attached, and is then a document like any other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.openai import KeptFile
from app.db.models.tenant_data import Document
from app.db.session import TenantDatabase
from app.documents.attachment_repository import AttachmentPage, AttachmentRepository
from app.documents.deletion import DeletionService
from app.documents.files import FileService
from app.documents.reading import ReadingService
from app.documents.scopes import Scope
from app.documents.service import DocumentService
from app.documents.types import DocumentFacts, DocumentNotFound, ReceivedFile
from app.documents.uploading import Reference, Settle, UploadService
from app.ids import decode_id, encode_id
from app.job_queue import INTERACTIVE
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectStore
from app.temporary import temporary_folder


def name_of(document: Document) -> str:
    """What a document is called among files: the file's id that it was made of, else its own."""
    return _name(document.external_id, document.id)


def _name(external_id: str | None, document_id: UUID) -> str:
    is_file = external_id is not None and decode_id("file", external_id) is not None
    return external_id if is_file and external_id is not None else encode_id("doc", document_id)


@dataclass(frozen=True, slots=True)
class AttachmentService:
    """What a key can do with the files of a knowledge base, which are all documents that it may see there.

    They are named as ``name_of`` says.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    files: FileService
    documents: DocumentService
    uploads: UploadService
    deletions: DeletionService
    reading: ReadingService
    objects: ObjectStore

    async def attach(self, reference: str, file_id: UUID, attributes: dict[str, Any] | None) -> Document:
        """Upload a kept file. Raises KnowledgeBaseNotFound, FileNotFound, and as ``UploadService.upload``."""
        kb = await self.knowledge_bases.find(reference)
        return await self.attach_file(kb, await self.files.get(file_id), attributes, priority=INTERACTIVE)

    async def attach_file(
        self,
        kb: Reference,
        file: KeptFile,
        attributes: dict[str, Any] | None,
        *,
        priority: int,
        settle: Settle | None = None,
    ) -> Document:
        """The same for a file in hand. One that is attached already stays the document that it is."""
        facts = DocumentFacts(
            metadata=attributes,
            external_id=encode_id("file", file.id),
            expires_at=file.expires_at,
            # A key that is narrowed to a user adds to what is that user's.
            scope=Scope(self.knowledge_bases.principal.user_id),
        )
        with temporary_folder("upload") as folder:
            path = folder / "0"
            await self.objects.get(file.key, path)
            received = ReceivedFile(path, file.filename, file.media_type, file.bytes, file.sha256)
            uploaded = await self.uploads.upload_received(kb, received, facts, priority, settle)
        return uploaded.document

    async def get(self, reference: str, name: str) -> Document:
        """Raises KnowledgeBaseNotFound, DocumentNotFound."""
        document_id = decode_id("doc", name)
        if document_id is not None:
            return await self.documents.get(reference, document_id)
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            if decode_id("file", name) is None:
                raise DocumentNotFound
            reader = self.knowledge_bases.principal.user_id
            found = await AttachmentRepository(session, self.db.tenant_id, reader=reader).by_external_id(
                kb.row.id, name
            )
        if found is None:
            raise DocumentNotFound
        return found

    async def page(self, reference: str, page: AttachmentPage) -> Sequence[Document]:
        """Raises KnowledgeBaseNotFound."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            reader = self.knowledge_bases.principal.user_id
            return await AttachmentRepository(session, self.db.tenant_id, reader=reader).page(kb.row.id, page)

    async def update(self, reference: str, name: str, attributes: dict[str, Any]) -> Document:
        """Set its metadata, as a whole. Raises as ``DocumentService.update``."""
        document = await self.get(reference, name)
        return await self.documents.update(reference, document.id, {"metadata": attributes})

    async def detach(self, reference: str, name: str) -> None:
        """Delete the document; the file is kept. Raises as ``DeletionService.delete``."""
        document = await self.get(reference, name)
        await self.deletions.delete(reference, document.id)

    async def text(self, reference: str, name: str) -> tuple[Document, str]:
        """What was read of it. Raises DocumentNotFound."""
        document = await self.get(reference, name)
        return await self.reading.text(reference, document.id)

    async def names(self, documents: Sequence[UUID]) -> Mapping[UUID, str]:
        """What these are called; shared ones by their own ids."""
        async with self.db.transaction() as session:
            found = await AttachmentRepository(session, self.db.tenant_id, reader=None).external_ids(documents)
        return {document_id: _name(found.get(document_id), document_id) for document_id in documents}

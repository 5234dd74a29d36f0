"""Files in knowledge bases: a kept file is attached, and is then a document like any other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.models.files import StoredFile
from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.content.service import ContentService
from app.documents.deletion.service import DeletionService
from app.documents.scopes import DocumentScope
from app.documents.service import DocumentService
from app.documents.types import DocumentFields, DocumentNotFound, ReceivedFile
from app.documents.upload.service import KnowledgeBaseReference, OnStored, UploadService
from app.files.attachment_repository import AttachmentListParams, AttachmentRepository
from app.files.service import FileService
from app.ids import decode_id, encode_id
from app.jobs.queue import INTERACTIVE
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectStore
from app.temp_files import create_temp_directory


def format_attachment_id(document: DocumentRow) -> str:
    """What a document is called among files: the file's id that it was made of, else its own."""
    return _format_attachment_id(document.external_id, document.id)


def _format_attachment_id(external_id: str | None, document_id: UUID) -> str:
    is_file = external_id is not None and decode_id("file", external_id) is not None
    return external_id if is_file and external_id is not None else encode_id("doc", document_id)


@dataclass(frozen=True, slots=True)
class AttachmentService:
    """What a key can do with the files of a knowledge base, which are all documents that it may see there.

    They are named as ``format_attachment_id`` says.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    files: FileService
    documents: DocumentService
    uploads: UploadService
    deletions: DeletionService
    content: ContentService
    objects: ObjectStore

    async def attach(self, reference: str, file_id: UUID, attributes: dict[str, Any] | None) -> DocumentRow:
        """Upload a kept file. Raises KnowledgeBaseNotFound, FileNotFound, and as ``UploadService.upload``."""
        kb = await self.knowledge_bases.find(reference)
        return await self.attach_file(kb, await self.files.get(file_id), attributes, priority=INTERACTIVE)

    async def attach_file(
        self,
        kb: KnowledgeBaseReference,
        file: StoredFile,
        attributes: dict[str, Any] | None,
        *,
        priority: int,
        on_stored: OnStored | None = None,
    ) -> DocumentRow:
        """The same for a file in hand. One that is attached already stays the document that it is."""
        fields = DocumentFields(
            metadata=attributes,
            external_id=encode_id("file", file.id),
            expires_at=file.expires_at,
            # A key that is narrowed to a user adds to what is that user's.
            scope=DocumentScope(self.knowledge_bases.principal.user_id),
        )
        with create_temp_directory("upload") as folder:
            path = folder / "0"
            await self.objects.get(file.key, path)
            received = ReceivedFile(path, file.filename, file.media_type, file.bytes, file.sha256)
            result = await self.uploads.upload_received_file(kb, received, fields, priority, on_stored)
        return result.document

    async def get(self, reference: str, attachment_id: str) -> DocumentRow:
        """Raises KnowledgeBaseNotFound, DocumentNotFound."""
        document_id = decode_id("doc", attachment_id)
        if document_id is not None:
            return await self.documents.get(reference, document_id)
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            if decode_id("file", attachment_id) is None:
                raise DocumentNotFound
            reader = self.knowledge_bases.principal.user_id
            document = await AttachmentRepository(session, self.db.tenant_id, reader=reader).find_by_external_id(
                kb.row.id, attachment_id
            )
        if document is None:
            raise DocumentNotFound
        return document

    async def list_documents(self, reference: str, params: AttachmentListParams) -> Sequence[DocumentRow]:
        """Raises KnowledgeBaseNotFound."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            reader = self.knowledge_bases.principal.user_id
            return await AttachmentRepository(session, self.db.tenant_id, reader=reader).list_documents(
                kb.row.id, params
            )

    async def update(self, reference: str, attachment_id: str, attributes: dict[str, Any]) -> DocumentRow:
        """Set its metadata, as a whole. Raises as ``DocumentService.update``."""
        document = await self.get(reference, attachment_id)
        return await self.documents.update(reference, document.id, {"metadata": attributes})

    async def detach(self, reference: str, attachment_id: str) -> None:
        """Delete the document; the file is kept. Raises as ``DeletionService.delete``."""
        document = await self.get(reference, attachment_id)
        await self.deletions.delete(reference, document.id)

    async def read_text(self, reference: str, attachment_id: str) -> tuple[DocumentRow, str]:
        """What was read of it. Raises DocumentNotFound."""
        document = await self.get(reference, attachment_id)
        return await self.content.read_text(reference, document.id)

    async def get_attachment_ids(self, document_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        """What these are called; shared ones by their own ids."""
        async with self.db.transaction() as session:
            external_ids = await AttachmentRepository(session, self.db.tenant_id, reader=None).load_external_ids(
                document_ids
            )
        return {
            document_id: _format_attachment_id(external_ids.get(document_id), document_id)
            for document_id in document_ids
        }

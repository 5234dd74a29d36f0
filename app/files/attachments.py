"""Attachments: stored files in knowledge bases. An attached file becomes a document."""

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
    """Return a document's attachment id: the id of the stored file, or the document id if there is no stored file."""
    return _format_attachment_id(document.external_id, document.id)


def _format_attachment_id(external_id: str | None, document_id: UUID) -> str:
    is_file = external_id is not None and decode_id("file", external_id) is not None
    return external_id if is_file and external_id is not None else encode_id("doc", document_id)


@dataclass(frozen=True, slots=True)
class AttachmentService:
    """Use cases that present the documents of a knowledge base as files.

    Every document of the knowledge base that the key may read counts as a file.
    ``format_attachment_id`` defines the ids of attachments.
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
        """Upload a stored file to a knowledge base as a document.

        Raises KnowledgeBaseNotFound, FileNotFound, and the errors of ``UploadService.upload``.
        """
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
        """Upload a loaded stored file to a knowledge base. If the file is attached already, its document is returned.

        Args:
            kb: The knowledge base.
            file: The stored file.
            attributes: The document's metadata, or None.
            priority: The priority of the ingestion job.
            on_stored: Writes further rows in the transaction that stores the document.

        Returns:
            The document. Raises the errors of ``UploadService.upload``.
        """
        fields = DocumentFields(
            metadata=attributes,
            external_id=encode_id("file", file.id),
            expires_at=file.expires_at,
            # A key restricted to a user writes to the scope of that user.
            scope=DocumentScope(self.knowledge_bases.principal.user_id),
        )
        with create_temp_directory("upload") as folder:
            path = folder / "0"
            await self.objects.get(file.key, path)
            received = ReceivedFile(path, file.filename, file.media_type, file.bytes, file.sha256)
            result = await self.uploads.upload_received_file(kb, received, fields, priority, on_stored)
        return result.document

    async def get(self, reference: str, attachment_id: str) -> DocumentRow:
        """Return the document of an attachment.

        Args:
            reference: Name or id of the knowledge base.
            attachment_id: Id of a stored file or of a document.

        Returns:
            The document.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The id is not attached, or the caller may not read the document.
        """
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
        """List the documents of a knowledge base.

        Args:
            reference: Name or id of the knowledge base.
            params: The conditions and the position of the page.

        Returns:
            The documents.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            reader = self.knowledge_bases.principal.user_id
            return await AttachmentRepository(session, self.db.tenant_id, reader=reader).list_documents(
                kb.row.id, params
            )

    async def update(self, reference: str, attachment_id: str, attributes: dict[str, Any]) -> DocumentRow:
        """Replace the metadata of an attachment's document. Raises the errors of ``DocumentService.update``."""
        document = await self.get(reference, attachment_id)
        return await self.documents.update(reference, document.id, {"metadata": attributes})

    async def detach(self, reference: str, attachment_id: str) -> None:
        """Delete an attachment's document and keep the stored file. Raises the errors of ``DeletionService.delete``."""
        document = await self.get(reference, attachment_id)
        await self.deletions.delete(reference, document.id)

    async def read_text(self, reference: str, attachment_id: str) -> tuple[DocumentRow, str]:
        """Return an attachment's document and its text. Raises KnowledgeBaseNotFound, DocumentNotFound."""
        document = await self.get(reference, attachment_id)
        return await self.content.read_text(reference, document.id)

    async def get_attachment_ids(self, document_ids: Sequence[UUID]) -> Mapping[UUID, str]:
        """Return the attachment ids of documents.

        Args:
            document_ids: The documents. Documents of the system tenant keep their document ids.

        Returns:
            Attachment ids by document id.
        """
        async with self.db.transaction() as session:
            external_ids = await AttachmentRepository(session, self.db.tenant_id, reader=None).load_external_ids(
                document_ids
            )
        return {
            document_id: _format_attachment_id(external_ids.get(document_id), document_id)
            for document_id in document_ids
        }

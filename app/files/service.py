"""Stored files: uploads that become documents of knowledge bases later."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.models.files import StoredFile
from app.db.session import TenantDatabase
from app.documents.deletion.service import DeletionService
from app.documents.types import DocumentNotFound, EmptyUpload, build_object_key
from app.documents.upload.multipart import receive_form
from app.errors import NotFoundError
from app.files.repository import FileRepository
from app.ids import encode_id, generate_id
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseNotFound
from app.object_store import ObjectStore
from app.quotas.service import QuotaService
from app.quotas.types import QuotaExceeded


class FileNotFound(NotFoundError):
    """The file does not exist, or this API key may not read it. Check the id of the file."""

    code = "file_not_found"


@dataclass(frozen=True, slots=True)
class FileFields:
    """Fields of a stored file that a caller provides. Without ``lifetime``, the file does not expire."""

    purpose: str
    lifetime: timedelta | None = None


@dataclass(frozen=True, slots=True)
class FileService:
    """Use cases for stored files. The external id of a document made from a stored file is the id of the file."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    deletions: DeletionService
    objects: ObjectStore
    quotas: QuotaService

    async def store(
        self,
        body: AsyncIterator[bytes],
        boundary: bytes,
        parse_fields: Callable[[Mapping[str, str]], FileFields],
    ) -> StoredFile:
        """Store the file of a streamed form.

        Args:
            body: The request's body.
            boundary: The boundary of the form's parts.
            parse_fields: Parses the form's other fields.

        Returns:
            The stored file.

        Raises:
            UploadTooLarge: The file is larger than the limit.
            EmptyUpload: The file has no bytes.
            InvalidInputError: The form is malformed.
            QuotaExceeded: The upload exceeds a quota of the tenant or of the API key.
        """
        principal = self.knowledge_bases.principal
        async with receive_form(body, boundary, max_bytes=self.quotas.upload_limit_bytes) as form:
            received, fields = form.files[0], parse_fields(form.fields)
            if received.size == 0:
                raise EmptyUpload(loc=("body", "file"))
            now, file_id = datetime.now(UTC), generate_id()
            file = StoredFile(
                tenant_id=self.db.tenant_id,
                id=file_id,
                key_lineage_id=principal.key_lineage_id,
                quota_key_id=principal.storage_quota_key_id,
                filename=received.filename,
                media_type=received.declared_type,
                bytes=received.size,
                sha256=received.sha256,
                key=build_object_key(self.db.tenant_id, file_id, generate_id()),
                purpose=fields.purpose,
                expires_at=None if fields.lifetime is None else now + fields.lifetime,
                created_at=now,
            )
            await self.objects.put(file.key, received.path)
        try:
            async with self.db.transaction() as session:
                await FileRepository(session, principal).add(file)
                await self.quotas.check_file_storage(session)
                await self.knowledge_bases.record_event(session, AuditEvent(AuditAction.FILE_CREATE, [file.id]))
        except QuotaExceeded:
            await self.objects.delete(file.key)
            raise
        self.quotas.count(uploads=1, bytes=file.bytes)
        return file

    async def get(self, file_id: UUID) -> StoredFile:
        """Return a stored file. Raises FileNotFound."""
        return (await self.get_all([file_id]))[0]

    async def get_all(self, ids: Sequence[UUID]) -> list[StoredFile]:
        """Return stored files in the order of the ids.

        Args:
            ids: The files.

        Returns:
            The files.

        Raises:
            FileNotFound: One of the files does not exist.
        """
        async with self.db.transaction() as session:
            files_by_id = await FileRepository(session, self.knowledge_bases.principal).get(ids)
        if any(file_id not in files_by_id for file_id in ids):
            raise FileNotFound
        return [files_by_id[file_id] for file_id in ids]

    async def list_files(
        self, *, purpose: str | None, after: UUID | None, newest_first: bool, limit: int
    ) -> list[StoredFile]:
        """List stored files in the order of creation.

        Args:
            purpose: Only files with this purpose are listed. None lists all.
            after: Id of the last file of the previous page, or None.
            newest_first: Whether the order is descending.
            limit: The maximum number of files.

        Returns:
            The files.
        """
        async with self.db.transaction() as session:
            repository = FileRepository(session, self.knowledge_bases.principal)
            return await repository.list_files(purpose=purpose, after=after, newest_first=newest_first, limit=limit)

    async def delete(self, file_id: UUID) -> None:
        """Delete a stored file and the documents made from it.

        The documents are deleted first. If the deletion is interrupted, the file still exists, and the caller can
        repeat the request.

        Args:
            file_id: The file.

        Raises:
            FileNotFound: The file does not exist.
            ForbiddenError: The caller may not change one of the documents.
        """
        principal = self.knowledge_bases.principal
        file = await self.get(file_id)
        async with self.db.transaction() as session:
            documents = await FileRepository(session, principal).list_documents(file)
        for kb_id, document_id in documents:
            with suppress(KnowledgeBaseNotFound, DocumentNotFound):  # deleted already, or not readable
                await self.deletions.delete(encode_id("kb", kb_id), document_id, with_file=file_id)
        async with self.db.transaction() as session:
            if not await FileRepository(session, principal).remove(file_id):
                raise FileNotFound
            await self.knowledge_bases.record_event(session, AuditEvent(AuditAction.FILE_DELETE, [file_id]))
        await self.objects.delete(file.key)

"""Files that are kept for themselves, to become documents of knowledge bases later."""

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
    """There is no such file."""

    code = "file_not_found"


@dataclass(frozen=True, slots=True)
class FileFields:
    """What a caller says about a file."""

    purpose: str
    lifetime: timedelta | None = None


@dataclass(frozen=True, slots=True)
class FileService:
    """What a key can do with files; the documents made of one carry its id as their external id."""

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
        """Store a streamed form's file. Raises UploadTooLarge, EmptyUpload, InvalidInputError, QuotaExceeded."""
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
        """Raises FileNotFound."""
        return (await self.get_all([file_id]))[0]

    async def get_all(self, ids: Sequence[UUID]) -> list[StoredFile]:
        """In that order. Raises FileNotFound where one of them is not there."""
        async with self.db.transaction() as session:
            files_by_id = await FileRepository(session, self.knowledge_bases.principal).get(ids)
        if any(file_id not in files_by_id for file_id in ids):
            raise FileNotFound
        return [files_by_id[file_id] for file_id in ids]

    async def list_files(
        self, *, purpose: str | None, after: UUID | None, newest_first: bool, limit: int
    ) -> list[StoredFile]:
        """Those behind ``after`` in the order of time."""
        async with self.db.transaction() as session:
            repository = FileRepository(session, self.knowledge_bases.principal)
            return await repository.list_files(purpose=purpose, after=after, newest_first=newest_first, limit=limit)

    async def delete(self, file_id: UUID) -> None:
        """With the documents that were made of it. Raises FileNotFound, ForbiddenError for a document that is not its
        own.

        The documents go first: of a deletion that was cut off the file is left, and it can be asked for again.
        """
        principal = self.knowledge_bases.principal
        file = await self.get(file_id)
        async with self.db.transaction() as session:
            documents = await FileRepository(session, principal).list_documents(file)
        for kb_id, document_id in documents:
            with suppress(KnowledgeBaseNotFound, DocumentNotFound):  # gone meanwhile, or nothing that the key may see
                await self.deletions.delete(encode_id("kb", kb_id), document_id, with_file=file_id)
        async with self.db.transaction() as session:
            if not await FileRepository(session, principal).remove(file_id):
                raise FileNotFound
            await self.knowledge_bases.record_event(session, AuditEvent(AuditAction.FILE_DELETE, [file_id]))
        await self.objects.delete(file.key)

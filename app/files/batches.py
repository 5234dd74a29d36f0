"""Batches: many stored files that one job attaches to a knowledge base."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.audit.types import AuditAction, AuditEvent
from app.db.models.files import BatchFile, FileBatch
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.documents.deletion.service import DeletionService
from app.documents.service import FINAL_STATUSES
from app.documents.types import DocumentNotFound
from app.errors import NotFoundError
from app.files.batch_repository import FileBatchRepository
from app.files.repository import FileRepository
from app.files.service import FileNotFound
from app.ids import generate_id
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.tenants.auth.caller_snapshot import snapshot_caller

ATTACH_JOB = "attach_files"
MAX_BATCH_FILES = 500
# The id of a stored file, and the metadata of its document.
RequestedFile = tuple[UUID, dict[str, Any] | None]


class FileBatchNotFound(NotFoundError):
    """The batch does not exist in this knowledge base, or this API key may not read it. Check the id of the batch."""

    code = "file_batch_not_found"


@dataclass(frozen=True, slots=True)
class BatchFileState:
    """State of one file of a batch: it has a document, it was rejected with an error, or it waits (both are None)."""

    file_id: UUID
    document: DocumentRow | None = None
    error: Mapping[str, Any] | None = None
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FileBatchView:
    """A batch with the numbers of its files by status.

    Files without a document count as queued or failed.
    """

    batch: FileBatch
    status_counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileBatchFiles:
    """A batch with its files in order; ``filenames`` has the names of files without a document."""

    batch: FileBatch
    files: Sequence[BatchFileState]
    filenames: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class FileBatchService:
    """Use cases for batches of stored files."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    deletions: DeletionService
    queue: JobQueue

    async def create(self, reference: str, requested_files: Sequence[RequestedFile]) -> FileBatchView:
        """Create a batch and enqueue the job that attaches its files with the caller's access rights.

        An error of one file is recorded for that file. The other files are attached.

        Args:
            reference: Name or id of the knowledge base.
            requested_files: The stored files with the metadata of their documents.

        Returns:
            The batch.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base searches an external service and stores no documents.
            IndexMismatch: No configured embedding model fits the search index.
            FileNotFound: One of the files does not exist. No file is attached then.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            kb.require_documents()
            kb.require_match(self.knowledge_bases.settings.embedders.identities)
            await self._require_files(session, [file_id for file_id, _ in requested_files])
            batch = FileBatch(
                tenant_id=self.db.tenant_id,
                id=generate_id(),
                kb_id=kb.row.id,
                key_lineage_id=self.knowledge_bases.principal.key_lineage_id,
                cancelled=0,
                created_at=datetime.now(UTC),
            )
            batch.job_id = await self._enqueue(session, batch)
            rows = [
                _build_row(batch, ordinal, requested_file) for ordinal, requested_file in enumerate(requested_files)
            ]
            await self._create_repository(session).add(batch, rows)
            await self.knowledge_bases.record_event(
                session, AuditEvent(AuditAction.FILE_BATCH_CREATE, [batch.id], kb.row.id)
            )
        return FileBatchView(batch, {"queued": len(rows)})

    async def _require_files(self, session: Session, ids: Sequence[UUID]) -> None:
        """Raise FileNotFound if one of the files does not exist."""
        files_by_id = await FileRepository(session, self.knowledge_bases.principal).get(ids)
        if any(file_id not in files_by_id for file_id in ids):
            raise FileNotFound

    async def _enqueue(self, session: Session, batch: FileBatch) -> UUID:
        caller = snapshot_caller(self.knowledge_bases.principal)
        payload = {"batch": str(batch.id), "knowledge_base": str(batch.kb_id), "caller": caller}
        # The job is short and a caller waits for it. Its documents are ingested with bulk priority.
        return await self.queue.enqueue(
            session, ATTACH_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )

    async def get(self, reference: str, batch_id: UUID) -> FileBatchView:
        """Return a batch and the numbers of its files by status. Callers poll this method.

        Args:
            reference: Name or id of the knowledge base.
            batch_id: The batch.

        Returns:
            The batch.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            FileBatchNotFound: The batch does not exist, or the caller may not read it.
        """
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            repository = self._create_repository(session)
            batch = await self._find_batch(repository, kb, batch_id)
            status_counts = Counter(await repository.count_documents_by_status(batch))
            waiting, rejected = await repository.count_without_document(batch_id)
            has_failed = waiting and await repository.find_job_error(batch) is not None
            status_counts.update({"failed" if has_failed else "queued": waiting})
            status_counts.update({"failed": rejected})
            return FileBatchView(batch, status_counts)

    async def list_files(self, reference: str, batch_id: UUID) -> FileBatchFiles:
        """Return a batch with the state of each file.

        Args:
            reference: Name or id of the knowledge base.
            batch_id: The batch.

        Returns:
            The files in the order of the batch.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            FileBatchNotFound: The batch does not exist, or the caller may not read it.
        """
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            repository = self._create_repository(session)
            batch = await self._find_batch(repository, kb, batch_id)
            rows = await repository.list_files(batch)
            has_waiting_file = any(document is None and row.error is None for row, document in rows)
            job_error = await repository.find_job_error(batch) if has_waiting_file else None
            files = [_build_file_state(row, document, job_error) for row, document in rows]
            return FileBatchFiles(batch, files, await self._load_filenames(session, files))

    async def _find_batch(self, repository: FileBatchRepository, kb: KnowledgeBaseView, batch_id: UUID) -> FileBatch:
        """Return a batch of a knowledge base. Raises FileBatchNotFound.

        A batch may contain files of several users. A key restricted to a user therefore reads only batches that the
        key, or an earlier key that rotation replaced, has created.
        """
        batch = await repository.get(batch_id)
        principal = self.knowledge_bases.principal
        if batch is None or batch.kb_id != kb.row.id:
            raise FileBatchNotFound
        if principal.user_id is not None and batch.key_lineage_id != principal.key_lineage_id:
            raise FileBatchNotFound
        return batch

    async def _load_filenames(self, session: Session, files: Sequence[BatchFileState]) -> Mapping[UUID, str]:
        ids = [file.file_id for file in files if file.document is None]
        stored_files = await FileRepository(session, self.knowledge_bases.principal).get(ids) if ids else {}
        return {file_id: file.filename for file_id, file in stored_files.items()}

    async def cancel(self, reference: str, batch_id: UUID) -> FileBatchView:
        """Cancel a batch: waiting files are not attached any more, and documents that are not ready are deleted.

        Args:
            reference: Name or id of the knowledge base.
            batch_id: The batch.

        Returns:
            The batch.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            FileBatchNotFound: The batch does not exist, or the caller may not read it.
            ForbiddenError: The caller may not delete one of the documents.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            await self._find_batch(self._create_repository(session), kb, batch_id)
            cancelled_files = await self._create_repository(session).cancel_waiting_files(batch_id)
        removed_documents = 0
        for file in (await self.list_files(reference, batch_id)).files:
            if file.document is not None and file.document.status not in FINAL_STATUSES:
                with suppress(DocumentNotFound):
                    await self.deletions.delete(reference, file.document.id)
                    removed_documents += 1
        async with self.db.transaction() as session:
            await self._create_repository(session).add_cancelled_files(batch_id, removed_documents)
            counts = {"documents": removed_documents, "files": cancelled_files}
            await self.knowledge_bases.record_event(
                session, AuditEvent(AuditAction.FILE_BATCH_CANCEL, [batch_id], kb.row.id, counts=counts)
            )
        return await self.get(reference, batch_id)

    def _create_repository(self, session: Session) -> FileBatchRepository:
        return FileBatchRepository(session, self.db.tenant_id, reader=self.knowledge_bases.principal.user_id)


def _build_row(batch: FileBatch, ordinal: int, requested_file: RequestedFile) -> BatchFile:
    file_id, attributes = requested_file
    return BatchFile(
        tenant_id=batch.tenant_id,
        batch_id=batch.id,
        ordinal=ordinal,
        file_id=file_id,
        kb_id=batch.kb_id,
        attributes=attributes,
    )


def _build_file_state(
    row: BatchFile, document: DocumentRow | None, job_error: Mapping[str, Any] | None
) -> BatchFileState:
    error = None if document is not None else row.error or job_error
    return BatchFileState(row.file_id, document, error, row.attributes)

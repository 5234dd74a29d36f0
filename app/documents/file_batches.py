"""Batches: many kept files that a job attaches to a knowledge base, and that are followed together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.audit.types import Action, Event
from app.db.models.openai import BatchFile, FileBatch
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.deletion import DeletionService
from app.documents.file_batch_repository import FileBatchRepository
from app.documents.file_repository import FileRepository
from app.documents.files import FileNotFound
from app.documents.service import FINAL
from app.documents.types import DocumentNotFound
from app.errors import NotFound
from app.ids import new_id
from app.job_queue import INTERACTIVE, JobQueue
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView
from app.tenants.callers import note_of

ATTACH_JOB = "attach_files"
MOST_BATCH_FILES = 500
# A kept file, and what its document is to have as metadata.
Wanted = tuple[UUID, dict[str, Any] | None]


class FileBatchNotFound(NotFound):
    """There is no such batch of files."""

    code = "file_batch_not_found"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of a batch: the document that it was made, or why it is none; with neither it waits."""

    file_id: UUID
    document: Document | None = None
    error: Mapping[str, Any] | None = None
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch; ``states`` counts its documents by status, and what is none as queued or failed."""

    batch: FileBatch
    states: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchList:
    """A batch with its files in their order; ``names`` are of those that are no documents."""

    batch: FileBatch
    files: Sequence[FileState]
    names: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class FileBatchService:
    """What a key can do with batches."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    deletions: DeletionService
    queue: JobQueue

    async def create(self, reference: str, wanted: Sequence[Wanted]) -> BatchView:
        """Have a job attach all, as this caller; what is wrong with one is told of it and stops no other.

        Raises KnowledgeBaseNotFound, HoldsNoDocuments, IndexMismatch; FileNotFound for one that is not there, and then
        none is attached.
        """
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            kb.require_documents()
            kb.require_match(self.knowledge_bases.settings.embedders.identities)
            await self._require_files(session, [file_id for file_id, _ in wanted])
            batch = FileBatch(
                tenant_id=self.db.tenant_id,
                id=new_id(),
                kb_id=kb.row.id,
                key_id=self.knowledge_bases.principal.line_id,
                cancelled=0,
                created_at=datetime.now(UTC),
            )
            batch.job_id = await self._enqueue(session, batch)
            rows = [_row(batch, ordinal, one) for ordinal, one in enumerate(wanted)]
            await self._repository(session).add(batch, rows)
            await self.knowledge_bases.record(session, Event(Action.FILE_BATCH_CREATE, [batch.id], kb.row.id))
        return BatchView(batch, {"queued": len(rows)})

    async def _require_files(self, session: Session, ids: Sequence[UUID]) -> None:
        """Raises FileNotFound."""
        found = await FileRepository(session, self.knowledge_bases.principal).get(ids)
        if any(one not in found for one in ids):
            raise FileNotFound

    async def _enqueue(self, session: Session, batch: FileBatch) -> UUID:
        caller = note_of(self.knowledge_bases.principal)
        payload = {"batch": str(batch.id), "knowledge_base": str(batch.kb_id), "caller": caller}
        # It is short, and somebody waits for it; what it makes of the files is ingested as bulk.
        return await self.queue.enqueue(
            session, ATTACH_JOB, tenant_id=self.db.tenant_id, payload=payload, priority=INTERACTIVE
        )

    async def get(self, reference: str, batch_id: UUID) -> BatchView:
        """How far it is; callers ask again and again. Raises KnowledgeBaseNotFound, FileBatchNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            repository = self._repository(session)
            batch = await self._find(repository, kb, batch_id)
            states = Counter(await repository.states(batch))
            waiting, refused = await repository.without_document(batch_id)
            is_over = waiting and await repository.given_up(batch) is not None
            states.update({"failed" if is_over else "queued": waiting})
            states.update({"failed": refused})
            return BatchView(batch, states)

    async def files(self, reference: str, batch_id: UUID) -> BatchList:
        """Raises as ``get``."""
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            repository = self._repository(session)
            batch = await self._find(repository, kb, batch_id)
            found = await repository.files(batch)
            waits = any(document is None and row.error is None for row, document in found)
            given_up = await repository.given_up(batch) if waits else None
            files = [_state(row, document, given_up) for row, document in found]
            return BatchList(batch, files, await self._names(session, files))

    async def _find(self, repository: FileBatchRepository, kb: KnowledgeBaseView, batch_id: UUID) -> FileBatch:
        """Raises FileBatchNotFound.

        A batch may hold several users' files: a key that is narrowed to a user sees its own batches.
        """
        batch = await repository.get(batch_id)
        principal = self.knowledge_bases.principal
        if batch is None or batch.kb_id != kb.row.id:
            raise FileBatchNotFound
        if principal.user_id is not None and batch.key_id != principal.line_id:
            raise FileBatchNotFound
        return batch

    async def _names(self, session: Session, files: Sequence[FileState]) -> Mapping[UUID, str]:
        ids = [file.file_id for file in files if file.document is None]
        kept = await FileRepository(session, self.knowledge_bases.principal).get(ids) if ids else {}
        return {file_id: file.filename for file_id, file in kept.items()}

    async def cancel(self, reference: str, batch_id: UUID) -> BatchView:
        """Attach no more of it, and take out what is not ready yet. Raises as ``get``, and Forbidden."""
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            await self._find(self._repository(session), kb, batch_id)
            stopped = await self._repository(session).stop(batch_id)
        taken_out = 0
        for file in (await self.files(reference, batch_id)).files:
            if file.document is not None and file.document.status not in FINAL:
                with suppress(DocumentNotFound):
                    await self.deletions.delete(reference, file.document.id)
                    taken_out += 1
        async with self.db.transaction() as session:
            await self._repository(session).count_cancelled(batch_id, taken_out)
            counts = {"documents": taken_out, "files": stopped}
            await self.knowledge_bases.record(
                session, Event(Action.FILE_BATCH_CANCEL, [batch_id], kb.row.id, counts=counts)
            )
        return await self.get(reference, batch_id)

    def _repository(self, session: Session) -> FileBatchRepository:
        return FileBatchRepository(session, self.db.tenant_id, reader=self.knowledge_bases.principal.user_id)


def _row(batch: FileBatch, ordinal: int, wanted: Wanted) -> BatchFile:
    file_id, attributes = wanted
    return BatchFile(
        tenant_id=batch.tenant_id,
        batch_id=batch.id,
        ordinal=ordinal,
        file_id=file_id,
        kb_id=batch.kb_id,
        attributes=attributes,
    )


def _state(row: BatchFile, document: Document | None, given_up: Mapping[str, Any] | None) -> FileState:
    error = None if document is not None else row.error or given_up
    return FileState(row.file_id, document, error, row.attributes)

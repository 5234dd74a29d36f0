"""Batches: many kept files attached to a knowledge base in one go, and followed together."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.audit.types import Action, Event
from app.db.models.openai import BatchFile, FileBatch, KeptFile
from app.db.models.tenant_data import Document
from app.db.session import Session, TenantDatabase
from app.documents.attachment_repository import AttachmentRepository
from app.documents.attachments import AttachmentService
from app.documents.file_repository import FileRepository
from app.documents.service import FINAL
from app.documents.types import DocumentNotFound
from app.errors import Conflict, InvalidInput, NotFound, TooLarge, TooMany, Unsupported
from app.ids import new_id
from app.job_queue import BULK
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView

MOST_BATCH_FILES = 500


class FileBatchNotFound(NotFound):
    """There is no such batch of files."""

    code = "file_batch_not_found"


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch with its files in their order, and the documents that they were made; ``names`` are of the refused."""

    batch: FileBatch
    files: Sequence[tuple[BatchFile, Document | None]]
    names: Mapping[UUID, str]


@dataclass(frozen=True, slots=True)
class FileBatchService:
    """What a key can do with batches."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    attachments: AttachmentService

    async def create(self, reference: str, wanted: Sequence[tuple[UUID, dict[str, Any] | None]]) -> BatchView:
        """Attach all; what is wrong with one is told of it and stops no other.

        Raises KnowledgeBaseNotFound; FileNotFound for one that is not there, and then none is attached.
        """
        kb = await self.knowledge_bases.find(reference)
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        files = await self.attachments.files.get_all([file_id for file_id, _ in wanted])
        batch = FileBatch(
            tenant_id=self.db.tenant_id,
            id=new_id(),
            kb_id=kb.row.id,
            key_id=self.knowledge_bases.principal.line_id,
            cancelled=0,
            created_at=datetime.now(UTC),
        )
        attributes = [given for _, given in wanted]
        rows = [await self._attach(kb, batch, ordinal, file, attributes[ordinal]) for ordinal, file in enumerate(files)]
        async with self.db.transaction() as session:
            await self.knowledge_bases.find_in(session, reference)
            await self._repository(session).add_batch(batch, rows)
            await self.knowledge_bases.record(session, Event(Action.FILE_BATCH_CREATE, [batch.id], kb.row.id))
        return await self.get(reference, batch.id)

    async def _attach(
        self,
        kb: KnowledgeBaseView,
        batch: FileBatch,
        ordinal: int,
        file: KeptFile,
        attributes: dict[str, Any] | None,
    ) -> BatchFile:
        row = BatchFile(
            tenant_id=self.db.tenant_id, batch_id=batch.id, ordinal=ordinal, file_id=file.id, kb_id=batch.kb_id
        )
        try:
            row.document_id = (await self.attachments.attach_file(kb, file, attributes, priority=BULK)).id
        except (InvalidInput, TooLarge, TooMany, Unsupported, Conflict) as exc:
            row.error = {"code": exc.code, "message": exc.message}
        return row

    async def get(self, reference: str, batch_id: UUID) -> BatchView:
        """Raises KnowledgeBaseNotFound, FileBatchNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            repository = self._repository(session)
            batch = await repository.batch(kb.row.id, batch_id)
            if batch is None or not self._may_see(batch):
                raise FileBatchNotFound
            files = await repository.batch_files(batch)
            refused = [row.file_id for row, document in files if document is None]
            kept = await FileRepository(session, self.knowledge_bases.principal).get(refused) if refused else {}
            return BatchView(batch, files, {file_id: file.filename for file_id, file in kept.items()})

    def _may_see(self, batch: FileBatch) -> bool:
        """A batch may hold several users' files: a key that is narrowed to one sees its own."""
        principal = self.knowledge_bases.principal
        return principal.user_id is None or batch.key_id == principal.line_id

    async def cancel(self, reference: str, batch_id: UUID) -> BatchView:
        """Take out of the knowledge base what is not ready yet. Raises as ``get``, and Forbidden."""
        view = await self.get(reference, batch_id)
        taken_out = 0
        for _, document in view.files:
            if document is not None and document.status not in FINAL:
                with suppress(DocumentNotFound):
                    await self.attachments.deletions.delete(reference, document.id)
                    taken_out += 1
        async with self.db.transaction() as session:
            await self._repository(session).cancel(batch_id, taken_out=taken_out)
            event = Event(Action.FILE_BATCH_CANCEL, [batch_id], view.batch.kb_id, counts={"documents": taken_out})
            await self.knowledge_bases.record(session, event)
        return await self.get(reference, batch_id)

    def _repository(self, session: Session) -> AttachmentRepository:
        return AttachmentRepository(session, self.db.tenant_id, reader=self.knowledge_bases.principal.user_id)

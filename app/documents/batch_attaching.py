"""What the job of a batch does: its files become documents, one by one, and it can be begun again at any moment."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.db.models.openai import BatchFile, KeptFile
from app.db.session import Session, TenantDatabase
from app.documents.attachments import AttachmentService
from app.documents.file_batch_repository import FileBatchRepository, FileWithdrawn
from app.documents.file_repository import FileRepository
from app.documents.files import FileNotFound
from app.errors import AppError, Unavailable
from app.ids import encode_id
from app.job_queue import BULK
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectMissing

# So many wait for the object store together.
AT_ONCE = 4
# None of it is a file's fault.
PASSING = (Unavailable, KnowledgeBaseNotFound, IndexMismatch)


@dataclass(frozen=True, slots=True)
class BatchAttaching:
    """The job, as the caller who has asked for the batch."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    attachments: AttachmentService

    async def run(self, batch_id: UUID) -> None:
        """Attach what waits; a file that is refused says why, and stops no other.

        Raises IndexMismatch; and Unavailable, or what else has befallen a file, when there is something left to try
        again.
        """
        with suppress(KnowledgeBaseNotFound):  # it was deleted meanwhile, and the batch goes with it
            await self._run(batch_id)

    async def _run(self, batch_id: UUID) -> None:
        async with self.db.transaction() as session:
            batch = await self._repository(session).get(batch_id)
            if batch is None:  # it went with its knowledge base
                return
            kb = await self.knowledge_bases.find_in(session, encode_id("kb", batch.kb_id))
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        failures: list[BaseException] = []
        last = -1
        while files := await self._next(batch_id, beyond=last):
            attaching = (self._attach(kb, row, file) for row, file in files)
            told = await asyncio.gather(*attaching, return_exceptions=True)
            failures += [error for error in told if error is not None]
            if any(_holds_for_all(error) for error in failures):
                break
            last = files[-1][0].ordinal
        if failures:
            raise next(filter(_holds_for_all, failures), failures[0])
        async with self.db.transaction() as session:
            await self._repository(session).close(batch_id)

    async def _next(self, batch_id: UUID, *, beyond: int) -> Sequence[tuple[BatchFile, KeptFile | None]]:
        async with self.db.transaction() as session:
            rows = await self._repository(session).waiting(batch_id, beyond=beyond, limit=AT_ONCE)
            kept = await FileRepository(session, self.knowledge_bases.principal).get([row.file_id for row in rows])
        return [(row, kept.get(row.file_id)) for row in rows]

    async def _attach(self, kb: KnowledgeBaseView, row: BatchFile, file: KeptFile | None) -> None:
        async def settle(session: Session, document_id: UUID) -> None:
            await self._repository(session).attach(row, document_id)

        try:
            if file is None:
                raise FileNotFound
            await self.attachments.attach_file(kb, file, row.attributes, priority=BULK, settle=settle)
        except FileWithdrawn:
            return
        except PASSING:
            raise
        except AppError as exc:
            async with self.db.transaction() as session:
                await self._repository(session).refuse(row, exc)

    def _repository(self, session: Session) -> FileBatchRepository:
        return FileBatchRepository(session, self.db.tenant_id, reader=self.knowledge_bases.principal.user_id)


def _holds_for_all(error: BaseException) -> bool:
    """Whether the other files would meet the same; an original that is missing is one file's alone."""
    return isinstance(error, PASSING) and not isinstance(error, ObjectMissing)

"""What the job of a batch does: its files become documents, one by one, and it can be begun again at any moment."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.db.models.files import BatchFile, StoredFile
from app.db.session import Session, TenantDatabase
from app.errors import AppError, UnavailableError
from app.files.attachments import AttachmentService
from app.files.batch_repository import FileAttachmentCancelled, FileBatchRepository
from app.files.repository import FileRepository
from app.files.service import FileNotFound
from app.ids import encode_id
from app.jobs.queue import BULK
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import IndexMismatch, KnowledgeBaseNotFound, KnowledgeBaseView
from app.object_store import ObjectMissing

# So many wait for the object store together.
MAX_CONCURRENT_FILES = 4
# None of it is a file's fault.
BATCH_LEVEL_ERRORS = (UnavailableError, KnowledgeBaseNotFound, IndexMismatch)


@dataclass(frozen=True, slots=True)
class FileBatchWorker:
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
            batch = await self._create_repository(session).get(batch_id)
            if batch is None:  # it went with its knowledge base
                return
            kb = await self.knowledge_bases.find_in_session(session, encode_id("kb", batch.kb_id))
        kb.require_match(self.knowledge_bases.settings.embedders.identities)
        failures: list[BaseException] = []
        last_ordinal = -1
        while files := await self._load_next_files(batch_id, after_ordinal=last_ordinal):
            attachments = (self._attach(kb, row, file) for row, file in files)
            results = await asyncio.gather(*attachments, return_exceptions=True)
            failures += [error for error in results if error is not None]
            if any(_affects_all_files(error) for error in failures):
                break
            last_ordinal = files[-1][0].ordinal
        if failures:
            raise next(filter(_affects_all_files, failures), failures[0])
        async with self.db.transaction() as session:
            await self._create_repository(session).close(batch_id)

    async def _load_next_files(
        self, batch_id: UUID, *, after_ordinal: int
    ) -> Sequence[tuple[BatchFile, StoredFile | None]]:
        async with self.db.transaction() as session:
            rows = await self._create_repository(session).list_waiting_files(
                batch_id, after_ordinal=after_ordinal, limit=MAX_CONCURRENT_FILES
            )
            stored_files = await FileRepository(session, self.knowledge_bases.principal).get(
                [row.file_id for row in rows]
            )
        return [(row, stored_files.get(row.file_id)) for row in rows]

    async def _attach(self, kb: KnowledgeBaseView, row: BatchFile, file: StoredFile | None) -> None:
        async def record_attachment(session: Session, document_id: UUID) -> None:
            await self._create_repository(session).attach(row, document_id)

        try:
            if file is None:
                raise FileNotFound
            await self.attachments.attach_file(kb, file, row.attributes, priority=BULK, on_stored=record_attachment)
        except FileAttachmentCancelled:
            return
        except BATCH_LEVEL_ERRORS:
            raise
        except AppError as exc:
            async with self.db.transaction() as session:
                await self._create_repository(session).reject(row, exc)

    def _create_repository(self, session: Session) -> FileBatchRepository:
        return FileBatchRepository(session, self.db.tenant_id, reader=self.knowledge_bases.principal.user_id)


def _affects_all_files(error: BaseException) -> bool:
    """Whether the other files would meet the same; an original that is missing is one file's alone."""
    return isinstance(error, BATCH_LEVEL_ERRORS) and not isinstance(error, ObjectMissing)

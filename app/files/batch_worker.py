"""Job of a batch: it attaches the batch's files, a few in parallel, and can be restarted at any moment."""

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

# The number of files that are fetched from the object store in parallel.
MAX_CONCURRENT_FILES = 4
# Errors that concern the whole batch, not a single file.
BATCH_LEVEL_ERRORS = (UnavailableError, KnowledgeBaseNotFound, IndexMismatch)


@dataclass(frozen=True, slots=True)
class FileBatchWorker:
    """Job of a batch of stored files, with the access rights of the caller who created the batch."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    attachments: AttachmentService

    async def run(self, batch_id: UUID) -> None:
        """Attach all waiting files of a batch. A rejected file gets its error, and the other files are attached.

        Args:
            batch_id: The batch. The job is complete if the batch or its knowledge base was deleted.

        Raises:
            IndexMismatch: No configured embedding model fits the search index.
            UnavailableError: A service did not answer. The job tries the remaining files again.
            Exception: An unexpected error of a file. The job tries the file again.
        """
        with suppress(KnowledgeBaseNotFound):  # the knowledge base was deleted, and the batch with it
            await self._run(batch_id)

    async def _run(self, batch_id: UUID) -> None:
        async with self.db.transaction() as session:
            batch = await self._create_repository(session).get(batch_id)
            if batch is None:  # the batch was deleted with its knowledge base
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
    """Return whether an error would occur for the other files too; a missing original concerns only its own file."""
    return isinstance(error, BATCH_LEVEL_ERRORS) and not isinstance(error, ObjectMissing)

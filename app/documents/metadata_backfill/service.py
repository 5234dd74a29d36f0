"""Metadata backfill: write a knowledge base's new enforced metadata into all its documents, in small batches."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.models.control_plane_rows import StalledBackfill
from app.db.session import Database, TenantDatabase
from app.documents.metadata_backfill.repository import MetadataBackfillRepository
from app.jobs.queue import INTERACTIVE, JobQueue
from app.knowledge_bases.service import BACKFILL_JOB
from app.logging import get_logger

logger = get_logger(__name__)

# The maximum numbers of documents and chunks of one transaction. An update in a vector index can take more than a
# millisecond per chunk, and a statement may run for two minutes.
BATCH_SIZE, MAX_BATCH_CHUNKS = 20, 5000


async def backfill_documents(db: TenantDatabase, kb_id: UUID) -> None:
    """Write the pending enforced metadata into all documents, then make it the current one.

    Until the end, readers accept documents with the former or the new metadata, and new documents get the new metadata.
    The
    function can be repeated after a crash.

    Args:
        db: The tenant's database.
        kb_id: The knowledge base.
    """
    document_count = 0
    while True:
        async with db.transaction() as session:
            repository = MetadataBackfillRepository(session, db.tenant_id, kb_id)
            backfill = await repository.find_pending()
            if backfill is None:
                return
            document_ids = await repository.lock_batch(backfill, limit=BATCH_SIZE, max_chunks=MAX_BATCH_CHUNKS)
            if document_ids:
                await repository.apply(backfill, document_ids)
                document_count += len(document_ids)
        if document_ids:
            continue
        # A separate transaction avoids a deadlock. The batch may have locked documents that needed no change. An upload
        # of a new version of such a document has locked the knowledge base and waits for the document.
        async with db.transaction() as session:
            if await MetadataBackfillRepository(session, db.tenant_id, kb_id).finish(backfill):
                logger.info("knowledge_base.backfilled", knowledge_base=str(kb_id), documents=document_count)
                return


@dataclass(frozen=True, slots=True)
class BackfillRecovery:
    """Recovery of metadata backfills whose job has failed for good.

    Until a metadata backfill ends, the knowledge base accepts no other change of its enforced metadata.
    """

    database: Database
    queue: JobQueue
    find_stalled: Callable[[], Awaitable[Sequence[StalledBackfill]]]

    async def scan(self) -> None:
        """Enqueue a job for each stalled metadata backfill. Raises DatabaseUnavailable."""
        for stalled in await self.find_stalled():
            async with self.database.transaction(stalled.tenant_id) as session:
                await self.queue.enqueue_unique(
                    session, BACKFILL_JOB, subject_id=stalled.kb_id, tenant_id=stalled.tenant_id,
                    payload={"knowledge_base": str(stalled.kb_id)}, priority=INTERACTIVE,
                )  # fmt: skip
            logger.info("knowledge_base.backfill_resumed", knowledge_base=str(stalled.kb_id))

"""A new stamp of a knowledge base goes round: to every document in it, a few at a time."""

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

# Each with all of its chunks, in one transaction. In a vector index a chunk may take a millisecond and more, and a
# statement has two minutes.
BATCH_SIZE, MAX_BATCH_CHUNKS = 20, 5000


async def backfill_documents(db: TenantDatabase, kb_id: UUID) -> None:
    """Give all documents the pending stamp, then make it the knowledge base's; doing it again changes nothing.

    Meanwhile reads let both stamps pass, and what comes in has the new one.
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
        # On its own: a document that had the new stamp by the time it was waited for is held until the end, and who
        # uploads another version of it holds the knowledge base.
        async with db.transaction() as session:
            if await MetadataBackfillRepository(session, db.tenant_id, kb_id).finish(backfill):
                logger.info("knowledge_base.backfilled", knowledge_base=str(kb_id), documents=document_count)
                return


@dataclass(frozen=True, slots=True)
class BackfillRecovery:
    """A restamp whose job was given up goes on: until it has ended, the knowledge base takes no other stamp."""

    database: Database
    queue: JobQueue
    find_stalled: Callable[[], Awaitable[Sequence[StalledBackfill]]]

    async def scan(self) -> None:
        """Give each a job again, as its PATCH did. Raises DatabaseUnavailable."""
        for stalled in await self.find_stalled():
            async with self.database.transaction(stalled.tenant_id) as session:
                await self.queue.enqueue_unique(
                    session, BACKFILL_JOB, subject_id=stalled.kb_id, tenant_id=stalled.tenant_id,
                    payload={"knowledge_base": str(stalled.kb_id)}, priority=INTERACTIVE,
                )  # fmt: skip
            logger.info("knowledge_base.backfill_resumed", knowledge_base=str(stalled.kb_id))

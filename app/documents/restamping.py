"""A new stamp of a knowledge base goes round: to every document in it, a few at a time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.models.control_rows import StalledRestamp
from app.db.session import Database, TenantDatabase
from app.documents.restamp_repository import RestampRepository
from app.job_queue import INTERACTIVE, JobQueue
from app.knowledge_bases.service import RESTAMP_JOB
from app.logging import get_logger

logger = get_logger(__name__)

# Each with all of its chunks, in one transaction. In a vector index a chunk may take a millisecond and more, and a
# statement has two minutes.
BATCH, BATCH_CHUNKS = 20, 5000


async def restamp_documents(db: TenantDatabase, kb_id: UUID) -> None:
    """Give all documents the pending stamp, then make it the knowledge base's; doing it again changes nothing.

    Meanwhile reads let both stamps pass, and what comes in has the new one.
    """
    documents = 0
    while True:
        async with db.transaction() as session:
            repository = RestampRepository(session, db.tenant_id, kb_id)
            restamp = await repository.wanted()
            if restamp is None:
                return
            found = await repository.take(restamp, limit=BATCH, chunks=BATCH_CHUNKS)
            if found:
                await repository.stamp(restamp, found)
                documents += len(found)
        if found:
            continue
        # On its own: a document that had the new stamp by the time it was waited for is held until the end, and who
        # uploads another version of it holds the knowledge base.
        async with db.transaction() as session:
            if await RestampRepository(session, db.tenant_id, kb_id).finish(restamp):
                logger.info("knowledge_base.restamped", knowledge_base=str(kb_id), documents=documents)
                return


@dataclass(frozen=True, slots=True)
class RestampUpkeep:
    """A restamp whose job was given up goes on: until it has ended, the knowledge base takes no other stamp."""

    database: Database
    queue: JobQueue
    find_stalled: Callable[[], Awaitable[Sequence[StalledRestamp]]]

    async def look_after_all(self) -> None:
        """Give each a job again, as its PATCH did. Raises DatabaseUnavailable."""
        for one in await self.find_stalled():
            async with self.database.transaction(one.tenant_id) as session:
                await self.queue.enqueue_once(
                    session, RESTAMP_JOB, about=one.kb_id, tenant_id=one.tenant_id,
                    payload={"knowledge_base": str(one.kb_id)}, priority=INTERACTIVE,
                )  # fmt: skip
            logger.info("knowledge_base.restamp_resumed", knowledge_base=str(one.kb_id))

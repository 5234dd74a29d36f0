"""Search indexes that nobody goes back to: emptied in batches beside everything that goes on, then removed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.maintenance import OwnerDatabase
from app.db.models.control_rows import ChangedIndex
from app.db.session import Database
from app.indexing.repository import IndexRepository
from app.indexing.types import IndexBusy
from app.job_queue import MAINTENANCE, JobQueue
from app.logging import get_logger

logger = get_logger(__name__)

DROP_JOB = "drop_search_index"
# Writers of the knowledge base wait for one: a batch takes some tenths of a second.
BATCH = 1000
LOCK_SECONDS = 0.7


@dataclass(frozen=True, slots=True)
class IndexDropping:
    """What the jobs call."""

    database: Database
    queue: JobQueue
    find_expired: Callable[[], Awaitable[Sequence[ChangedIndex]]]
    owner: OwnerDatabase | None

    async def look_after_all(self) -> None:
        """Give every search index whose time has passed a job. Raises DatabaseUnavailable."""
        for one in await self.find_expired():
            async with self.database.transaction(one.tenant_id) as session:
                await self.queue.enqueue_once(
                    session, DROP_JOB, about=one.index_id, tenant_id=one.tenant_id,
                    payload={"index": str(one.index_id)}, priority=MAINTENANCE,
                )  # fmt: skip

    async def empty(self, tenant_id: UUID, index_id: UUID) -> UUID | None:
        """Remove all that is in it; its knowledge base, or None where it is gone, or live or built again.

        From the first moment nobody can go back to it. Its own partial indexes go first: to take chunks out of them
        costs more than all else. Raises IndexBusy, MaintenanceFailed, and DBAPIError where writers are in the way for
        long.
        """
        async with self.database.transaction(tenant_id) as session:
            begun = await IndexRepository(session, tenant_id, index_id).give_up()
        if begun is None:
            return None
        kb_id, is_promoted = begun
        if is_promoted and self.owner is not None:
            async with self.owner.connect() as owner:
                if not await owner.take_turn():
                    raise IndexBusy
                await owner.drop_all(index_id)
        while True:
            # The two cascades of each chunk are planned once: planned row by row, they cost five times as much.
            async with self.database.transaction(tenant_id, kept_plans=True) as session:
                repository = IndexRepository(session, tenant_id, index_id)
                if not await repository.hold_alone(seconds=LOCK_SECONDS):
                    return None
                if not await repository.remove_chunks(limit=BATCH):
                    return kb_id

    async def remove(self, tenant_id: UUID, index_id: UUID) -> None:
        """The row of one that is empty, and what was counted in it."""
        async with self.database.transaction(tenant_id) as session:
            repository = IndexRepository(session, tenant_id, index_id)
            if await repository.hold_alone(seconds=LOCK_SECONDS):
                await repository.remove()
        logger.info("index.dropped", index=str(index_id))

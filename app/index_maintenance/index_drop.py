"""Search indexes that nobody goes back to: emptied in batches beside everything that goes on, then removed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.index_ddl import OwnerDatabase
from app.db.models.control_plane_rows import ChangedIndex
from app.db.session import Database
from app.index_maintenance.repository import IndexRepository
from app.index_maintenance.types import IndexBusy
from app.jobs.queue import MAINTENANCE, JobQueue
from app.logging import get_logger

logger = get_logger(__name__)

DROP_JOB = "drop_search_index"
# Writers of the knowledge base wait for one: a batch takes some tenths of a second.
BATCH_SIZE = 1000
LOCK_TIMEOUT_SECONDS = 0.7


@dataclass(frozen=True, slots=True)
class IndexDropper:
    """What the jobs call."""

    database: Database
    queue: JobQueue
    find_expired: Callable[[], Awaitable[Sequence[ChangedIndex]]]
    owner_database: OwnerDatabase | None

    async def scan(self) -> None:
        """Give every search index whose time has passed a job. Raises DatabaseUnavailable."""
        for index in await self.find_expired():
            async with self.database.transaction(index.tenant_id) as session:
                await self.queue.enqueue_unique(
                    session, DROP_JOB, subject_id=index.index_id, tenant_id=index.tenant_id,
                    payload={"index": str(index.index_id)}, priority=MAINTENANCE,
                )  # fmt: skip

    async def delete_chunks(self, tenant_id: UUID, index_id: UUID) -> UUID | None:
        """Remove all that is in it; its knowledge base, or None where it is gone, or live or built again.

        From the first moment nobody can go back to it. Its own partial indexes go first: to take chunks out of them
        costs more than all else. Raises IndexBusy, MaintenanceFailed, and DBAPIError where writers are in the way for
        long.
        """
        async with self.database.transaction(tenant_id) as session:
            marked = await IndexRepository(session, tenant_id, index_id).mark_for_deletion()
        if marked is None:
            return None
        kb_id, has_vector_index = marked
        if has_vector_index and self.owner_database is not None:
            async with self.owner_database.connect() as connection:
                if not await connection.try_lock():
                    raise IndexBusy
                await connection.drop_all(index_id)
        while True:
            # The two cascades of each chunk are planned once: planned row by row, they cost five times as much.
            async with self.database.transaction(tenant_id, allow_generic_plans=True) as session:
                repository = IndexRepository(session, tenant_id, index_id)
                if not await repository.lock_exclusive(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                    return None
                if not await repository.remove_chunks(limit=BATCH_SIZE):
                    return kb_id

    async def remove(self, tenant_id: UUID, index_id: UUID) -> None:
        """The row of one that is empty, and what was counted in it."""
        async with self.database.transaction(tenant_id) as session:
            repository = IndexRepository(session, tenant_id, index_id)
            if await repository.lock_exclusive(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                await repository.remove()
        logger.info("index.dropped", index=str(index_id))

"""Delete retired search indexes whose time for a rollback is over: first their chunks in batches, then the index."""

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
BATCH_SIZE = 1000
"""Number of chunks that one transaction deletes. Writers of the knowledge base wait some tenths of a second for it."""

LOCK_TIMEOUT_SECONDS = 0.7
"""Maximum seconds that a transaction waits for a lock; Postgres detects a deadlock after one second."""


@dataclass(frozen=True, slots=True)
class IndexDropper:
    """Service of the jobs that delete retired search indexes.

    Attributes:
        database: Database.
        queue: Job queue.
        find_expired: Finds the retired search indexes of all tenants whose time for a rollback is over.
        owner_database: Connection with the role that owns the tables and may drop partial indexes; None if it is not
            configured.
    """

    database: Database
    queue: JobQueue
    find_expired: Callable[[], Awaitable[Sequence[ChangedIndex]]]
    owner_database: OwnerDatabase | None

    async def scan(self) -> None:
        """Enqueue a job for each retired search index whose time for a rollback is over.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        for index in await self.find_expired():
            async with self.database.transaction(index.tenant_id) as session:
                await self.queue.enqueue_unique(
                    session, DROP_JOB, subject_id=index.index_id, tenant_id=index.tenant_id,
                    payload={"index": str(index.index_id)}, priority=MAINTENANCE,
                )  # fmt: skip

    async def delete_chunks(self, tenant_id: UUID, index_id: UUID) -> UUID | None:
        """Delete the chunks of a retired search index. A rollback to it is impossible from the beginning of the call.

        Its partial indexes are dropped first, because deleting chunks from them would take most of the time.

        Args:
            tenant_id: The tenant.
            index_id: The search index.

        Returns:
            The knowledge base, or None if the search index was deleted or is not retired.

        Raises:
            IndexBusy: Other maintenance is running.
            MaintenanceFailed: A partial index cannot be dropped.
            DBAPIError: A writer holds a lock for too long.
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
            # A generic plan for the two cascades of each chunk: planning them for each row takes five times as long.
            async with self.database.transaction(tenant_id, allow_generic_plans=True) as session:
                repository = IndexRepository(session, tenant_id, index_id)
                if not await repository.lock_exclusive(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                    return None
                if not await repository.remove_chunks(limit=BATCH_SIZE):
                    return kb_id

    async def remove(self, tenant_id: UUID, index_id: UUID) -> None:
        """Delete the row and the counts of an empty search index."""
        async with self.database.transaction(tenant_id) as session:
            repository = IndexRepository(session, tenant_id, index_id)
            if await repository.lock_exclusive(timeout_seconds=LOCK_TIMEOUT_SECONDS):
                await repository.remove()
        logger.info("index.dropped", index=str(index_id))

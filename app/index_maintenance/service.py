"""Maintain search indexes during normal operation: merge counts, recompute weights, build and drop vector indexes."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from sqlalchemy.exc import DBAPIError

from app.db.index_ddl import MAX_DIMENSIONS, OwnerConnection, OwnerDatabase, VectorIndexSpec
from app.db.models.control_plane_rows import ChangedIndex, OutdatedIndex
from app.db.session import Database, Session
from app.index_maintenance.repository import IndexRepository
from app.index_maintenance.types import (
    MAX_CHANGED_CHUNKS,
    MAX_CHANGED_SHARE,
    MAX_DEAD_SHARE,
    MAX_LENGTH_DRIFT,
    MIN_GROWTH_SHARE,
    IndexBusy,
    IndexMaintenanceStep,
    IndexStats,
    VectorIndexSkipReason,
    decide_next_step,
)
from app.jobs.queue import MAINTENANCE, JobQueue
from app.logging import get_logger

logger = get_logger(__name__)

MAINTAIN_INDEXES_JOB = "maintain_indexes"
"""Job that checks all changed search indexes, which is quick."""

MAINTAIN_INDEX_JOB = "maintain_index"
"""Job that maintains one search index, which may take long."""

REFRESH_PROFILE_JOB = "refresh_routing_profile"
"""Job that builds a routing profile; its sample is limited, so the largest knowledge base takes no longer."""

LOCK_TIMEOUT_SECONDS = 0.7
"""Maximum seconds that a transaction waits for a lock; Postgres detects a deadlock after one second."""

MIN_RECALL = 0.9
"""Minimum recall of a vector index. Real embeddings reach 0.97 and more; with thousands of equal vectors it is 0.5."""


@dataclass(frozen=True, slots=True)
class IndexMaintenance:
    """Service of the maintenance jobs.

    Attributes:
        database: Database.
        queue: Job queue.
        find_changed: Finds the search indexes of all tenants whose counts have changed.
        find_outdated: Finds search indexes with outdated term weights or routing profiles, up to a limit.
        owner_database: Connection with the role that owns the tables and may build vector indexes. Without this
            connection, searches scan all vectors, and each large search index stores the reason.
        threshold: Number of chunks with 384 dimensions from which a search index gets a vector index.
    """

    database: Database
    queue: JobQueue
    find_changed: Callable[[], Awaitable[Sequence[ChangedIndex]]]
    find_outdated: Callable[..., Awaitable[Sequence[OutdatedIndex]]]
    owner_database: OwnerDatabase | None
    threshold: int

    async def scan(self) -> int:
        """Merge the counts of changed search indexes, and enqueue jobs for those that need more maintenance.

        The database, not the process, remembers the need: a process can end before it enqueues a job. A running job may
        also have begun before the change.

        Returns:
            The number of changed search indexes.

        Raises:
            DatabaseUnavailable: The database does not answer.
            MaintenanceFailed: A statement of the owner of the tables fails.
            DBAPIError: The counts of a search index could not be merged. Raised after the counts of all other search
                indexes are merged.
            TimeoutError: Merging took too long. Raised after the counts of all other search indexes are merged.
        """
        changed = await self.find_changed()
        failures: list[Exception] = []
        for index in changed:
            try:
                await self._scan_index(index.tenant_id, index.index_id)
            except IndexBusy:  # the next scan finds it again
                continue
            except (DBAPIError, TimeoutError) as exc:
                failures.append(exc)
        outdated = await self.find_outdated(
            max_drift=MAX_LENGTH_DRIFT,
            max_changed_share=MAX_CHANGED_SHARE,
            max_changed_chunks=MAX_CHANGED_CHUNKS,
        )
        await self._request_jobs(
            MAINTAIN_INDEX_JOB, [(index.tenant_id, index.index_id) for index in outdated if index.drifted]
        )
        await self._request_jobs(
            REFRESH_PROFILE_JOB, [(index.tenant_id, index.index_id) for index in outdated if index.unrouted]
        )
        if self.owner_database is not None:
            async with self.owner_database.connect() as connection:
                if changed:
                    await connection.flush_pending_lists()
                if orphans := await connection.drop_orphans():
                    logger.info("index.orphans_dropped", indexes=orphans)
                due = await connection.find_due(
                    threshold=self.threshold, max_dead_share=MAX_DEAD_SHARE, min_growth_share=MIN_GROWTH_SHARE
                )
            await self._request_jobs(MAINTAIN_INDEX_JOB, due)
        if failures:
            raise failures[0]
        return len(changed)

    async def _scan_index(self, tenant_id: UUID, index_id: UUID) -> None:
        """Merge the counts of one search index; enqueue a job in the same transaction if its vector index needs it."""
        async with self.database.transaction(tenant_id) as session:
            stats = await self._merge_deltas_in_session(session, tenant_id, index_id)
            if stats is not None and self._decide_step(stats) is not IndexMaintenanceStep.NOTHING:
                await self._enqueue(session, MAINTAIN_INDEX_JOB, tenant_id, index_id)

    async def maintain(self, tenant_id: UUID, index_id: UUID) -> None:
        """Do the maintenance that one search index needs. A repeated call changes nothing.

        Args:
            tenant_id: The tenant.
            index_id: The search index.

        Raises:
            IndexBusy: Other maintenance is running.
            MaintenanceFailed: A statement of the owner of the tables fails.
            DBAPIError: A writer holds a lock for too long.
        """
        stats = await self._merge_and_recompute_weights(tenant_id, index_id)
        if stats is None:
            return
        match self._decide_step(stats):
            case IndexMaintenanceStep.PROMOTE:
                await self._promote(tenant_id, stats)
            case IndexMaintenanceStep.REBUILD:
                await self._rebuild(tenant_id, stats)
            case IndexMaintenanceStep.MEASURE:
                await self._complete(tenant_id, stats, is_measured=False)
            case IndexMaintenanceStep.DEMOTE:
                await self._demote(tenant_id, stats, None)
            case IndexMaintenanceStep.NOTHING:
                await self._complete(tenant_id, stats)

    async def prepare(self, tenant_id: UUID, index_id: UUID) -> bool:
        """Prepare a complete generation, so that it needs no maintenance when it becomes the live one.

        Args:
            tenant_id: The tenant.
            index_id: The generation.

        Returns:
            False if the build of another vector index must end first.

        Raises:
            IndexBusy: Other maintenance is running.
            MaintenanceFailed: A statement of the owner of the tables fails.
            DBAPIError: A writer holds a lock for too long.
        """
        stats = await self._merge_and_recompute_weights(tenant_id, index_id)
        if stats is None:
            return True
        match self._decide_step(stats.as_live()):
            case IndexMaintenanceStep.PROMOTE:
                await self._promote(tenant_id, stats)
            case IndexMaintenanceStep.NOTHING | IndexMaintenanceStep.REBUILD | IndexMaintenanceStep.MEASURE:
                return await self._complete(tenant_id, stats)
            case IndexMaintenanceStep.DEMOTE:
                return True
        stats = await self._merge_deltas(tenant_id, index_id)
        return stats is None or stats.vector_index == "hnsw" or stats.skip_reason is not None

    async def _merge_and_recompute_weights(self, tenant_id: UUID, index_id: UUID) -> IndexStats | None:
        stats = await self._merge_deltas(tenant_id, index_id)
        if stats is not None and stats.has_drifted:
            await self._recompute_weights(tenant_id, index_id)
        return stats

    def _decide_step(self, stats: IndexStats) -> IndexMaintenanceStep:
        return decide_next_step(stats, threshold=self.threshold)

    async def _request_jobs(self, kind: str, index_keys: Iterable[tuple[UUID, UUID]]) -> None:
        for tenant_id, index_id in index_keys:
            async with self.database.transaction(tenant_id) as session:
                await self._enqueue(session, kind, tenant_id, index_id)

    async def _enqueue(self, session: Session, kind: str, tenant_id: UUID, index_id: UUID) -> None:
        payload = {"index": str(index_id)}
        await self.queue.enqueue_unique(
            session, kind, subject_id=index_id, tenant_id=tenant_id, payload=payload, priority=MAINTENANCE
        )

    async def _merge_deltas(self, tenant_id: UUID, index_id: UUID) -> IndexStats | None:
        async with self.database.transaction(tenant_id) as session:
            return await self._merge_deltas_in_session(session, tenant_id, index_id)

    async def _merge_deltas_in_session(self, session: Session, tenant_id: UUID, index_id: UUID) -> IndexStats | None:
        repository = IndexRepository(session, tenant_id, index_id)
        if not await repository.lock_shared():
            return None
        await repository.merge_deltas()
        stats = await repository.get_stats()
        if stats is not None and stats.vector_index == "hnsw":
            await repository.measure_size(VectorIndexSpec(tenant_id, index_id, stats.dim).index_names)
        return stats

    async def _recompute_weights(self, tenant_id: UUID, index_id: UUID) -> None:
        """Recompute all weights in one transaction, so that every search sees either the old or the new weights.

        Writers wait for the transaction. Its lock timeout is short, so in a deadlock this transaction gives up.
        """
        started = time.monotonic()
        async with self.database.transaction(tenant_id) as session:
            repository = IndexRepository(session, tenant_id, index_id)
            is_locked = await repository.lock_exclusive(timeout_seconds=LOCK_TIMEOUT_SECONDS)
            stats = await repository.get_stats() if is_locked else None
            if stats is None or stats.mean_length is None or not stats.has_drifted:
                return
            avgdl = float(np.float32(stats.mean_length))  # the stored precision, so that later reads are equal
            await repository.recompute_weights(stats, avgdl)
        elapsed_seconds = time.monotonic() - started
        logger.info(
            "index.weights_recomputed", index=str(index_id), chunks=stats.chunks, seconds=round(elapsed_seconds, 3)
        )

    async def _promote(self, tenant_id: UUID, stats: IndexStats) -> None:
        index = VectorIndexSpec(tenant_id, stats.id, stats.dim)
        if self.owner_database is None:
            await self._set_exact(index, VectorIndexSkipReason.NO_OWNER)
            return
        if stats.dim > MAX_DIMENSIONS:
            await self._set_exact(index, VectorIndexSkipReason.TOO_WIDE)
            return
        async with self.owner_database.connect() as connection:
            if not await connection.try_lock():
                return  # a later scan finds the index again
            if await connection.is_index_limit_reached(index):
                await self._set_exact(index, VectorIndexSkipReason.TOO_MANY)
                return
            started = time.monotonic()
            async with self.database.transaction(tenant_id) as session:
                await IndexRepository(session, tenant_id, stats.id).set_building()
            await connection.build(index, chunks=stats.chunks)
            if not await self._activate_if_accurate(connection, index, stats):
                return
        elapsed_seconds = time.monotonic() - started
        logger.info("index.promoted", index=str(stats.id), chunks=stats.chunks, seconds=round(elapsed_seconds, 1))

    async def _rebuild(self, tenant_id: UUID, stats: IndexStats) -> None:
        """Rebuild a vector index with too many deleted chunks. Added chunks need no rebuild: HNSW connects them."""
        index = VectorIndexSpec(tenant_id, stats.id, stats.dim)
        if self.owner_database is None:
            return
        async with self.owner_database.connect() as connection:
            if not await connection.try_lock():
                return
            if not await connection.build(index, chunks=stats.chunks):
                await connection.rebuild(index, chunks=stats.chunks)
            if not await self._activate_if_accurate(connection, index, stats):
                return
        logger.info("index.rebuilt", index=str(stats.id), chunks=stats.chunks)

    async def _complete(self, tenant_id: UUID, stats: IndexStats, *, is_measured: bool = True) -> bool:
        """Build partial indexes that are missing: never built, dropped during retirement, or lost by a restore.

        If nothing is missing and ``is_measured`` is false, measure the recall again with the chunks added since. Return
        False if the build of another vector index must end first.
        """
        if self.owner_database is None or stats.vector_index != "hnsw":
            return True
        index = VectorIndexSpec(tenant_id, stats.id, stats.dim)
        async with self.owner_database.connect() as connection:
            if is_measured and await connection.is_clean(index):
                return True
            if not await connection.try_lock():
                return False
            built = await connection.build(index, chunks=stats.chunks)
            await self._activate_if_accurate(connection, index, stats, built=built)
        return True

    async def _activate_if_accurate(
        self, connection: OwnerConnection, index: VectorIndexSpec, stats: IndexStats, *, built: bool = True
    ) -> bool:
        """Activate the vector index if it is complete and accurate, and return whether it is in use.

        Otherwise drop it, and let searches scan all vectors. ``built`` is true if the vector index is new.
        """
        recall = await connection.measure_recall(index) if await connection.is_complete(index) else None
        if recall is None or recall < MIN_RECALL:
            await self._set_exact(index, VectorIndexSkipReason.INEXACT, chunks=stats.chunks, recall=recall)
            await connection.drop_all(index.index_id)
            logger.warning("index.inexact", index=str(index.index_id), chunks=stats.chunks)
            return False
        async with self.database.transaction(index.tenant_id) as session:
            repository = IndexRepository(session, index.tenant_id, index.index_id)
            await repository.set_built(chunks=stats.chunks, recall=recall, rebuilt=built)
            await repository.measure_size(index.index_names)
        return True

    async def _demote(self, tenant_id: UUID, stats: IndexStats, reason: VectorIndexSkipReason | None) -> None:
        """Make searches scan all vectors, then drop the vector index, now or at the next scan."""
        index = VectorIndexSpec(tenant_id, stats.id, stats.dim)
        await self._set_exact(index, reason)
        if self.owner_database is not None:
            async with self.owner_database.connect() as connection:
                if await connection.try_lock():
                    await connection.drop_all(stats.id)
        logger.info("index.demoted", index=str(stats.id), chunks=stats.chunks)

    async def _set_exact(
        self,
        index: VectorIndexSpec,
        reason: VectorIndexSkipReason | None,
        *,
        chunks: int | None = None,
        recall: float | None = None,
    ) -> None:
        async with self.database.transaction(index.tenant_id) as session:
            repository = IndexRepository(session, index.tenant_id, index.index_id)
            await repository.set_exact(reason, chunks=chunks, recall=recall)

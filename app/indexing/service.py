"""Keep search indexes small, exact and quick, beside everything that goes on in them."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from sqlalchemy.exc import DBAPIError

from app.db.maintenance import MOST_DIMENSIONS, OwnerConnection, OwnerDatabase, PromotedIndex
from app.db.models.control_rows import ChangedIndex, UnsettledIndex
from app.db.session import Database, Session
from app.indexing.repository import IndexRepository
from app.indexing.types import (
    CHANGED,
    DEAD,
    DRIFT,
    GROWN,
    MOST_CHANGED,
    HeldBack,
    IndexBusy,
    IndexFigures,
    Step,
    next_step,
)
from app.job_queue import MAINTENANCE, JobQueue
from app.logging import get_logger

logger = get_logger(__name__)

# The first looks after all that has changed, and takes moments; the second works on one search index, maybe long.
PERIODIC_JOB = "maintain_indexes"
INDEX_JOB = "maintain_index"
# Makes what searches are routed by; as quick as it is for the largest.
CENTROIDS_JOB = "make_centroids"
LOCK_SECONDS = 0.7
# Of real embeddings 0.97 and more is found; where thousands are copies of one, of the others a half.
LEAST_RECALL = 0.9


@dataclass(frozen=True, slots=True)
class IndexMaintenance:
    """What the jobs call. Without ``owner`` every search index stays exact, and says why.

    ``find_unsettled`` is ``SystemDatabase.unsettled_indexes``, up to some number.
    """

    database: Database
    queue: JobQueue
    find_changed: Callable[[], Awaitable[Sequence[ChangedIndex]]]
    find_unsettled: Callable[..., Awaitable[Sequence[UnsettledIndex]]]
    owner: OwnerDatabase | None
    threshold: int

    async def look_after_all(self) -> int:
        """Fold what has changed, and give every search index that wants more a job; returns how many have changed.

        What is wanted is asked of the database: who has seen it may be gone before it has a job, and a job that runs
        may have begun before. Raises DatabaseUnavailable, MaintenanceFailed, and what one index could not be folded
        for, after all the others.
        """
        changed = await self.find_changed()
        failures: list[Exception] = []
        for one in changed:
            try:
                await self._look_after(one.tenant_id, one.index_id)
            except IndexBusy:  # it stays among those that have changed
                continue
            except (DBAPIError, TimeoutError) as exc:
                failures.append(exc)
        unsettled = await self.find_unsettled(drift=DRIFT, changed=CHANGED, most=MOST_CHANGED)
        await self._request(INDEX_JOB, [(one.tenant_id, one.index_id) for one in unsettled if one.drifted])
        await self._request(CENTROIDS_JOB, [(one.tenant_id, one.index_id) for one in unsettled if one.unrouted])
        if self.owner is not None:
            async with self.owner.connect() as owner:
                if changed:
                    await owner.clean_pending()
                if strays := await owner.drop_strays():
                    logger.info("index.strays_dropped", indexes=strays)
                due = await owner.due(threshold=self.threshold, dead=DEAD, grown=GROWN)
            await self._request(INDEX_JOB, due)
        if failures:
            raise failures[0]
        return len(changed)

    async def _look_after(self, tenant_id: UUID, index_id: UUID) -> None:
        """Fold one, and ask for a job in the same transaction where its vector index is not what it should be."""
        async with self.database.transaction(tenant_id) as session:
            figures = await self._folded(session, tenant_id, index_id)
            if figures is not None and self._step(figures) is not Step.NOTHING:
                await self._enqueue(session, INDEX_JOB, tenant_id, index_id)

    async def maintain(self, tenant_id: UUID, index_id: UUID) -> None:
        """Do what one search index wants; doing it again changes nothing.

        Raises IndexBusy, MaintenanceFailed, and DBAPIError where writers are in the way for long.
        """
        figures = await self._fold_and_weigh(tenant_id, index_id)
        if figures is None:
            return
        match self._step(figures):
            case Step.PROMOTE:
                await self._promote(tenant_id, figures)
            case Step.REBUILD:
                await self._rebuild(tenant_id, figures)
            case Step.TRY:
                await self._complete(tenant_id, figures, tried=False)
            case Step.DEMOTE:
                await self._demote(tenant_id, figures, None)
            case Step.NOTHING:
                await self._complete(tenant_id, figures)

    async def prepare(self, tenant_id: UUID, index_id: UUID) -> bool:
        """Do for one that is whole what it wants as soon as it is live; False where another's build has to end first.

        Raises as ``maintain``.
        """
        figures = await self._fold_and_weigh(tenant_id, index_id)
        if figures is None:
            return True
        match self._step(figures.once_live()):
            case Step.PROMOTE:
                await self._promote(tenant_id, figures)
            case Step.NOTHING | Step.REBUILD | Step.TRY:
                return await self._complete(tenant_id, figures)
            case Step.DEMOTE:
                return True
        figures = await self._fold(tenant_id, index_id)
        return figures is None or figures.vector_index == "hnsw" or figures.held_back is not None

    async def _fold_and_weigh(self, tenant_id: UUID, index_id: UUID) -> IndexFigures | None:
        figures = await self._fold(tenant_id, index_id)
        if figures is not None and figures.has_drifted:
            await self._reweigh(tenant_id, index_id)
        return figures

    def _step(self, figures: IndexFigures) -> Step:
        return next_step(figures, threshold=self.threshold)

    async def _request(self, kind: str, places: Iterable[tuple[UUID, UUID]]) -> None:
        for tenant_id, index_id in places:
            async with self.database.transaction(tenant_id) as session:
                await self._enqueue(session, kind, tenant_id, index_id)

    async def _enqueue(self, session: Session, kind: str, tenant_id: UUID, index_id: UUID) -> None:
        payload = {"index": str(index_id)}
        await self.queue.enqueue_once(
            session, kind, about=index_id, tenant_id=tenant_id, payload=payload, priority=MAINTENANCE
        )

    async def _fold(self, tenant_id: UUID, index_id: UUID) -> IndexFigures | None:
        async with self.database.transaction(tenant_id) as session:
            return await self._folded(session, tenant_id, index_id)

    async def _folded(self, session: Session, tenant_id: UUID, index_id: UUID) -> IndexFigures | None:
        repository = IndexRepository(session, tenant_id, index_id)
        if not await repository.hold():
            return None
        await repository.fold()
        figures = await repository.figures()
        if figures is not None and figures.vector_index == "hnsw":
            await repository.measure(PromotedIndex(tenant_id, index_id, figures.dim).names)
        return figures

    async def _reweigh(self, tenant_id: UUID, index_id: UUID) -> None:
        """In one transaction, so that every search sees the old weights or the new ones.

        Writers wait for it, and it waits for nobody for long: of two that wait for each other it is the one to give up.
        """
        started = time.monotonic()
        async with self.database.transaction(tenant_id) as session:
            repository = IndexRepository(session, tenant_id, index_id)
            alone = await repository.hold_alone(seconds=LOCK_SECONDS)
            figures = await repository.figures() if alone else None
            if figures is None or figures.mean_length is None or not figures.has_drifted:
                return
            avgdl = float(np.float32(figures.mean_length))  # as it is stored: what is read later must be the same
            await repository.reweigh(figures, avgdl)
        seconds = time.monotonic() - started
        logger.info("index.reweighed", index=str(index_id), chunks=figures.chunks, seconds=round(seconds, 3))

    async def _promote(self, tenant_id: UUID, figures: IndexFigures) -> None:
        index = PromotedIndex(tenant_id, figures.id, figures.dim)
        if self.owner is None:
            await self._stay_exact(index, HeldBack.NO_OWNER)
            return
        if figures.dim > MOST_DIMENSIONS:
            await self._stay_exact(index, HeldBack.TOO_WIDE)
            return
        async with self.owner.connect() as owner:
            if not await owner.take_turn():
                return  # it is found again when the turn is free
            if await owner.is_crowded(index):
                await self._stay_exact(index, HeldBack.TOO_MANY)
                return
            started = time.monotonic()
            async with self.database.transaction(tenant_id) as session:
                await IndexRepository(session, tenant_id, figures.id).set_building()
            await owner.make(index, chunks=figures.chunks)
            if not await self._put_into_use(owner, index, figures):
                return
        seconds = time.monotonic() - started
        logger.info("index.promoted", index=str(figures.id), chunks=figures.chunks, seconds=round(seconds, 1))

    async def _rebuild(self, tenant_id: UUID, figures: IndexFigures) -> None:
        """What a load adds needs none: it is as well connected as what was there, only the dead are in the way."""
        index = PromotedIndex(tenant_id, figures.id, figures.dim)
        if self.owner is None:
            return
        async with self.owner.connect() as owner:
            if not await owner.take_turn():
                return
            if not await owner.make(index, chunks=figures.chunks):
                await owner.rebuild(index, chunks=figures.chunks)
            if not await self._put_into_use(owner, index, figures):
                return
        logger.info("index.rebuilt", index=str(figures.id), chunks=figures.chunks)

    async def _complete(self, tenant_id: UUID, figures: IndexFigures, *, tried: bool = True) -> bool:
        """Make what a promoted index never had, or has lost while retired, or in a restored or tampered database.

        Where nothing is missing it is tried again if it was not ``tried`` with all that was added since. False where
        another's build has to end first.
        """
        if self.owner is None or figures.vector_index != "hnsw":
            return True
        index = PromotedIndex(tenant_id, figures.id, figures.dim)
        async with self.owner.connect() as owner:
            if tried and await owner.is_tidy(index):
                return True
            if not await owner.take_turn():
                return False
            built = await owner.make(index, chunks=figures.chunks)
            await self._put_into_use(owner, index, figures, built=built)
        return True

    async def _put_into_use(
        self, owner: OwnerConnection, index: PromotedIndex, figures: IndexFigures, *, built: bool = True
    ) -> bool:
        """If it is whole and finds what it should; ``built`` where its vector index is new. Whether it is in use."""
        if not await owner.is_whole(index) or await owner.recall(index) < LEAST_RECALL:
            await self._stay_exact(index, HeldBack.INEXACT, chunks=figures.chunks)
            await owner.drop_all(index.index_id)
            logger.warning("index.inexact", index=str(index.index_id), chunks=figures.chunks)
            return False
        async with self.database.transaction(index.tenant_id) as session:
            repository = IndexRepository(session, index.tenant_id, index.index_id)
            await repository.set_built(chunks=figures.chunks, anew=built)
            await repository.measure(index.names)
        return True

    async def _demote(self, tenant_id: UUID, figures: IndexFigures, reason: HeldBack | None) -> None:
        """Searches do without first; then the indexes go, now or with the next look after all."""
        index = PromotedIndex(tenant_id, figures.id, figures.dim)
        await self._stay_exact(index, reason)
        if self.owner is not None:
            async with self.owner.connect() as owner:
                if await owner.take_turn():
                    await owner.drop_all(figures.id)
        logger.info("index.demoted", index=str(figures.id), chunks=figures.chunks)

    async def _stay_exact(self, index: PromotedIndex, reason: HeldBack | None, *, chunks: int | None = None) -> None:
        async with self.database.transaction(index.tenant_id) as session:
            await IndexRepository(session, index.tenant_id, index.index_id).set_exact(reason, chunks=chunks)

"""Ask the lanes and read what they found, inside the time that is left."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import DatabaseUnavailable, TenantDatabase
from app.logging import get_logger
from app.retrieval.course import Course
from app.retrieval.repository import Lane, LaneCall, LaneRow, RetrievalRepository
from app.retrieval.types import Candidate, Hit, SearchUnavailable

logger = get_logger(__name__)

LANE_ROWS = 100
# Of the time left: the first try of both lanes, then each lane by itself.
TOGETHER, APART = 0.5, 0.4
# However small the budget is, the database gets this long: less would fail every search on a busy machine.
LEAST_SECONDS = 0.1
# How much longer than its own limit the database may take before it is left alone.
GRACE_SECONDS = 0.1

Rank = Callable[[Sequence[LaneRow]], list[Candidate]]


@dataclass(frozen=True, slots=True)
class Finder:
    """``names`` are the knowledge bases' by search index; of the candidates the best ``top_k`` are read."""

    db: TenantDatabase
    course: Course
    names: Mapping[UUID, str]
    top_k: int
    score_threshold: float | None

    async def find(self, calls: Sequence[LaneCall], rank: Rank) -> list[Hit]:
        """What ``rank`` makes of the lanes' rows, best first, ties by document and chunk_index.

        Both lanes in one statement; after an error or a time-out each by itself, and a warning names the one that could
        not answer. Raises SearchUnavailable when none could.
        """
        try:
            # Ranking inside saves a transaction: it is a matter of microseconds.
            async with self._repository(TOGETHER) as repository:
                return await self._read(repository, rank(await self._ask(repository, calls)))
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            logger.warning("search.lanes_failed", error=exc)
        rows, answered = await self._ask_apart(calls)
        try:
            async with self._repository(1.0) as repository:
                return await self._read(repository, rank(rows), lane=answered[0])
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            raise SearchUnavailable from exc

    @asynccontextmanager
    async def _repository(self, share: float) -> AsyncIterator[RetrievalRepository]:
        """A transaction whose statements may each take this share of the time left, and all of them little more."""
        seconds = max(LEAST_SECONDS, self.course.remaining * share)
        # One snapshot for lanes and texts: a document that is replaced in between is found whole, old or new.
        async with asyncio.timeout(seconds + GRACE_SECONDS), self.db.transaction(snapshot=True) as session:
            repository = RetrievalRepository(session)
            await repository.limit_time(seconds)
            yield repository

    async def _ask(self, repository: RetrievalRepository, calls: Sequence[LaneCall]) -> list[LaneRow]:
        with self.course.timing("lanes"):
            return await repository.run_lanes(calls, size=max(LANE_ROWS, self.top_k))

    async def _ask_apart(self, calls: Sequence[LaneCall]) -> tuple[list[LaneRow], list[Lane]]:
        """The rows, and the lanes that answered. Raises SearchUnavailable."""
        rows: list[LaneRow] = []
        answered: list[Lane] = []
        apart: dict[Lane, list[LaneCall]] = {
            "lexical": [replace(call, vector=None) for call in calls],
            "dense": [replace(call, term_ids=(), keys=()) for call in calls],
        }
        for name, alone in apart.items():
            if not any(call.asks_something for call in alone):
                continue
            try:
                async with self._repository(APART) as repository:
                    rows += await self._ask(repository, alone)
                answered.append(name)
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.lane_failed", lane=name, error=exc)
                self.course.warn(f"The {name} lane could not answer.")
        if not answered:
            raise SearchUnavailable
        return rows, answered

    async def _read(
        self, repository: RetrievalRepository, candidates: Sequence[Candidate], *, lane: Lane = "lexical"
    ) -> list[Hit]:
        """Texts and documents of the best; in the place of what is gone or expired meanwhile comes what follows."""
        rest = self._over_threshold(candidates)
        hits: list[Hit] = []
        with self.course.timing("read"):
            while rest and len(hits) < self.top_k:
                best, rest = _split(rest, self.top_k - len(hits))
                found = await repository.read([one.key for one in best], tenant_id=self.db.tenant_id, lane=lane)
                hits += [
                    Hit(*found[one.key], self.names[one.key[0]], one.score, one.similarity)
                    for one in best
                    if one.key in found
                ]
        hits.sort(key=lambda hit: (-hit.score, hit.document.id, hit.chunk.ordinal))
        return hits[: self.top_k]

    def _over_threshold(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        threshold = self.score_threshold
        if threshold is None:
            return candidates
        if any(one.similarity is None for one in candidates):
            self.course.warn("score_threshold was not applied where no similarity is known.")
        # Rounded as callers see it: a similarity that was shown lets its own result through.
        return [one for one in candidates if one.similarity is None or round(one.similarity, 6) >= threshold]


def _split(candidates: Sequence[Candidate], size: int) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """The first ``size`` with whatever ties with the last of them, and the rest."""
    end = min(size, len(candidates))
    while end < len(candidates) and candidates[end].score == candidates[end - 1].score:
        end += 1
    return candidates[:end], candidates[end:]

"""Ask the lanes and read what they found, inside the time that is left."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.filters import refusing
from app.logging import get_logger
from app.retrieval import shares
from app.retrieval.comparing import compare
from app.retrieval.costs import SearchCosts
from app.retrieval.course import MAYBE_MORE, NO_EXTRA_QUERIES, Course, reason_of
from app.retrieval.lanes import Ranked, Ranking, goes_on, split
from app.retrieval.merging import merge, uncovered
from app.retrieval.repository import LaneCall, LaneList, RetrievalRepository
from app.retrieval.sources import counted, without_duplicates
from app.retrieval.types import Expansion, Hit, Key, Lane, Searched, SearchUnavailable, in_order
from app.retrieval.widening import merged, widen

logger = get_logger(__name__)

LANE_ROWS = 100
MOST_LANE_ROWS = 1000  # as the lanes' functions have it
# Where hits become one, more are read at a time: else a long section would be read in many small steps.
MERGING_ROWS = 50

# Lists of lanes up to which ranking takes some milliseconds.
MAX_LIGHT_LISTS = 100
# SQLSTATE of a statement that has used up its time.
CANCELLED = "57014"

Rank = Callable[[Sequence[LaneList]], Ranking]


@dataclass(frozen=True, slots=True)
class Finder:
    """``searched`` are the knowledge bases by their search index, as keys begin; the best ``top_k`` are read.

    ``wanted`` is what the caller gets of them, where more are read. ``lane_rows`` is what each lane gives at least.
    With ``explain`` hits get their places, and the course the plans.
    """

    db: TenantDatabase
    course: Course
    searched: Mapping[bytes, Searched]
    top_k: int
    score_threshold: float | None
    wanted: int | None = None
    lane_rows: int = LANE_ROWS
    expansion: Expansion | None = None
    return_vectors: bool = False
    explain: bool = False
    costs: SearchCosts = field(default_factory=SearchCosts)

    def reading(self, rows: int) -> Self:
        """The same for so many hits, of which the caller gets as many as before."""
        expansion = self.expansion and self.expansion.bounded(rows)
        return replace(self, top_k=rows, wanted=self.wanted or self.top_k, expansion=expansion)

    async def find(self, calls: Sequence[LaneCall], rank: Rank, *, extra: frozenset[int] = frozenset()) -> list[Hit]:
        """What ``rank`` makes of the lanes' lists, best first, ties by document and chunk_index.

        Both lanes in one statement, or beside each other where they are slow; after an error or a time-out each by
        itself, and a warning names the one that could not answer; the calls at the places in ``extra`` are given up
        first. Where hits are missing that may stand behind the rows that the lanes gave, they are asked for more.

        Raises SearchUnavailable when none could, InvalidInput for a filter that the database refuses,
        FilterTooExpensive, and RateLimited when expensive searches of the tenant are in front of this one.
        """
        first = self.course.database_seconds(shares.LANES_TOGETHER)
        turn = self.costs.admitted(self.db.tenant_id, calls, remaining=self.course.remaining, database_seconds=first)
        async with turn:
            return await self._find(calls, rank, extra)

    async def _find(self, calls: Sequence[LaneCall], rank: Rank, extra: frozenset[int]) -> list[Hit]:
        try:
            hits, lists = await self._find_together(calls, rank)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            logger.warning("search.lanes_failed", error=exc)
        else:
            return await self._deeper(calls, rank, hits) if self._lacks(hits, calls, lists) else hits
        lists, answered = await self._ask_apart(self._without(extra, calls))
        try:
            async with self._repository(shares.READING) as repository:
                ranking = await self._ranked(rank, lists)
                hits = await self._read(repository, ranking.told_apart(), lane=answered[0])
                return await self._with_vectors(repository, hits, dense="dense" in answered)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            raise SearchUnavailable from exc

    async def _find_together(self, calls: Sequence[LaneCall], rank: Rank) -> tuple[list[Hit], list[LaneList]]:
        # Ranking inside saves a transaction: it is a matter of microseconds.
        async with self._repository(shares.LANES_TOGETHER) as repository:
            with self._weighed(calls):
                lists = await self._ask(repository, calls)
            ranking = await self._ranked(rank, lists)
            hits = await self._with_vectors(repository, await self._read(repository, ranking))
            await self._plan(repository, calls)
        return hits, lists

    async def _ranked(self, rank: Rank, lists: Sequence[LaneList]) -> Ranking:
        """Rank the lists; many of them in a thread, so that the loop serves other requests."""
        return rank(lists) if len(lists) <= MAX_LIGHT_LISTS else await asyncio.to_thread(rank, lists)

    def _lacks(self, hits: Sequence[Hit], calls: Sequence[LaneCall], lists: Sequence[LaneList]) -> bool:
        """Whether the caller gets too few, and the lanes may have more."""
        few = len(hits) < (self.wanted or self.top_k)
        return few and goes_on(calls, lists, size=self._size, threshold=self.score_threshold)

    async def _deeper(self, calls: Sequence[LaneCall], rank: Rank, hits: list[Hit]) -> list[Hit]:
        """The same from all the rows that may be; where they are not to be had, what was found stands."""
        most, now, asked = replace(self, lane_rows=MOST_LANE_ROWS), datetime.now(UTC), False
        if self.course.remaining >= shares.DEEPER_LEAST_SECONDS:
            try:
                hits, lists = await most._find_together([call.once_more(now) for call in calls], rank)
                if not most._lacks(hits, calls, lists):
                    return hits
                asked = True
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.not_deeper", error=exc)
        # That nothing is found does not say that nothing matches; that nothing reaches a threshold is an answer.
        told = self.course.remark if hits or (asked and self.score_threshold is not None) else self.course.warn
        told(MAYBE_MORE)
        return hits

    @asynccontextmanager
    async def _repository(self, share: float, *, snapshot: str | None = None) -> AsyncIterator[RetrievalRepository]:
        """A transaction whose statements may each take this share of the time left, and all of them little more."""
        seconds = self.course.database_seconds(share)
        # One snapshot for lanes and texts: a document that is replaced in between is found whole, old or new.
        reading = self.db.reading(snapshot=snapshot or True, seconds=seconds)
        with self.course.spending():
            async with asyncio.timeout(seconds + shares.DATABASE_GRACE_SECONDS), reading as reader:
                yield RetrievalRepository(reader)

    async def _ask(self, repository: RetrievalRepository, calls: Sequence[LaneCall]) -> list[LaneList]:
        with self.course.timing("lanes"), refusing(loc=("body", "filter")):
            if any(call.slow for call in calls) and self.db.database.is_at_leisure:
                return await self._ask_beside(repository, calls)
            return await repository.run_lanes(calls, size=self._size)

    @contextmanager
    def _weighed(self, calls: Sequence[LaneCall]) -> Iterator[None]:
        """Note what the filters cost; also when the statement is cancelled because its time is over."""
        began = time.monotonic()
        try:
            yield
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) == CANCELLED:
                self.costs.note(self.db.tenant_id, calls, time.monotonic() - began, ran_out=True)
            raise
        self.costs.note(self.db.tenant_id, calls, time.monotonic() - began, ran_out=False)

    async def _ask_beside(self, repository: RetrievalRepository, calls: Sequence[LaneCall]) -> list[LaneList]:
        """The lexical lane on a connection of its own, which sees what the transaction of the dense one sees.

        The dense one mostly takes longer, and so begins at once.
        """
        lexical = [replace(call, only_similarity=True) for call in calls]
        vectors = [None if call.only_similarity else call.vector for call in calls]
        dense = [replace(call, vector=one, term_ids=(), keys=()) for call, one in zip(calls, vectors, strict=True)]
        beside = self.course.beside(self._ask_alone(await repository.reader.name_snapshot(), lexical))
        try:
            found = await repository.run_lanes(dense, size=self._size)
            try:
                return [*found, *await beside]
            except (DatabaseUnavailable, DatabaseRefused) as exc:  # no second connection: the one at hand does
                logger.warning("search.not_beside", error=exc)
                return [*found, *await repository.run_lanes(lexical, size=self._size)]
        finally:
            beside.cancel()
            await asyncio.wait([beside])

    async def _ask_alone(self, snapshot: str, calls: Sequence[LaneCall]) -> list[LaneList]:
        async with self._repository(shares.LANES_TOGETHER, snapshot=snapshot) as repository:
            return await repository.run_lanes(calls, size=self._size)

    @property
    def _size(self) -> int:
        return max(self.lane_rows, self.top_k)

    def _without(self, extra: frozenset[int], calls: Sequence[LaneCall]) -> Sequence[LaneCall]:
        """The calls as they stand, where those at these places ask nothing; the caller is told."""
        if not extra:
            return calls
        self.course.drop("extra_queries", "lanes")
        self.course.remark(NO_EXTRA_QUERIES)
        return [
            replace(call, vector=None, term_ids=(), keys=()) if number in extra else call
            for number, call in enumerate(calls)
        ]

    async def _ask_apart(self, calls: Sequence[LaneCall]) -> tuple[list[LaneList], list[Lane]]:
        """The lists, and the lanes that answered. Raises SearchUnavailable."""
        lists: list[LaneList] = []
        answered: list[Lane] = []
        apart: dict[Lane, list[LaneCall]] = {
            "lexical": [replace(call, vector=None, slow=False) for call in calls],
            # Asks nothing where only its cosines are wanted.
            "dense": [replace(call, term_ids=(), keys=(), slow=False) for call in calls],
        }
        for name, alone in apart.items():
            if not any(call.asks_something for call in alone):
                continue
            try:
                async with self._repository(shares.LANES_APART) as repository:
                    lists += await self._ask(repository, alone)
                answered.append(name)
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.lane_failed", lane=name, error=exc)
                self.course.warn(f"The {name} lane could not answer.")
                self.course.drop(name, reason_of(exc))
        if not answered:
            raise SearchUnavailable
        return lists, answered

    async def _read(self, repository: RetrievalRepository, ranking: Ranking, *, lane: Lane = "lexical") -> list[Hit]:
        """Texts and documents of the best; in the place of what is gone, expired or merged comes what follows."""
        with self.course.timing("read"):
            rest = await self._over_threshold(repository, ranking)
            hits, rest = await self._fill(repository, ranking, [], rest, lane=lane)
            if hits and (expansion := self.expansion) is not None and expansion.merge is not None:
                hits = self._once(await merge(repository, expansion, expansion.merge, hits, top_k=self.top_k))
                hits, _ = await self._fill(repository, ranking, hits, rest, lane=lane)
        return self._told(ranking, hits[: self.top_k])

    async def _fill(
        self, repository: RetrievalRepository, ranking: Ranking, hits: list[Hit], rest: Ranked, *, lane: Lane
    ) -> tuple[list[Hit], Ranked]:
        """As many as are wanted, if there are, and what was not read."""
        while rest and len(hits) < self.top_k:
            wanted = max(MERGING_ROWS, self.top_k) if self._merges and hits else self.top_k - len(hits)
            best, rest = split(rest, wanted)
            hits = [*hits, *await self._hits(repository, ranking, best, lane=lane)]
            hits.sort(key=in_order)
            hits = self._once(hits)
            if self._merges:
                hits = merged(hits) if self._widens else uncovered(hits)
        return hits, rest

    def _once(self, hits: list[Hit]) -> list[Hit]:
        """Texts that several knowledge bases have come from one of them."""
        return without_duplicates(hits) if len(self.searched) > 1 else hits

    def scaled(self, ranked: Ranked) -> Ranked:
        """Scores as their knowledge bases count beside each other, best first; ties stay as they are."""
        if len({one.scale for one in self.searched.values()}) < 2:
            return ranked
        made = [(key, counted(score, self.searched[key[:16]].scale)) for key, score in ranked]
        return sorted(made, key=lambda item: -item[1])

    def scale_of(self, hits: Sequence[Hit]) -> float:
        """What the best of these counts beside hits from elsewhere."""
        return self.searched[hits[0].key[:16]].scale if hits else 1.0

    @property
    def _merges(self) -> bool:
        return self.expansion is not None and self.expansion.kind != "window"

    @property
    def _widens(self) -> bool:
        """Each hit for itself; with a share that decides they are looked at together."""
        return self.expansion is not None and self.expansion.merge is None

    async def _hits(
        self, repository: RetrievalRepository, ranking: Ranking, best: Ranked, *, lane: Lane
    ) -> Sequence[Hit]:
        keys, known = [key for key, _ in best], ranking.found.similarity
        tenants = self._tenants(keys)
        await compare(repository, ranking, keys, tenants)
        vector = ranking.vector if any(key not in known for key in keys) else None
        found = await repository.read(keys, tenants=tenants, lane=lane, vector=vector)
        hits = [
            Hit(key, row.chunk, row.document, self.searched[key[:16]].name, score, known.get(key, row.cosine), scores)
            for (key, score), scores in zip(best, ranking.scores(best), strict=True)
            if (row := found.get(key)) is not None
        ]
        if self.expansion is None or not self._widens or not hits:
            return hits
        return await widen(repository, self.expansion, hits)

    def _told(self, ranking: Ranking, hits: list[Hit]) -> list[Hit]:
        """With their places in the lanes, where these are asked for."""
        if not self.explain:
            return hits
        places = ranking.found.places()
        return [replace(hit, places=places.get(hit.key, ())) for hit in hits]

    async def _with_vectors(self, repository: RetrievalRepository, hits: list[Hit], *, dense: bool = True) -> list[Hit]:
        if not self.return_vectors or not hits:
            return hits
        if not dense:
            self.course.warn("The vectors could not be read.")
            self.course.drop("vectors", "dense")
            return hits
        with self.course.timing("vectors"):
            tenants = [hit.document.tenant_id for hit in hits]
            found = await repository.vectors([hit.key for hit in hits], tenants=tenants)
        return [replace(hit, vector=found.get(hit.key)) for hit in hits]

    async def _plan(self, repository: RetrievalRepository, calls: Sequence[LaneCall]) -> None:
        """The plan of each index; it is the same for all queries. It counts others' chunks: not for a narrowed key."""
        if self.explain:
            for call in {call.index_id: call for call in calls if not call.narrowed}.values():
                self.course.plans[call.index_id.bytes] = await repository.plan(call, size=self._size)

    def _tenants(self, keys: Sequence[Key]) -> list[UUID]:
        return [self.searched[key[:16]].tenant_id for key in keys]

    async def _over_threshold(self, repository: RetrievalRepository, ranking: Ranking) -> Ranked:
        threshold, similarity = self.score_threshold, ranking.found.similarity
        if threshold is None:
            return ranking.ranked
        # What reaches it already is compared as it is read.
        near = {key for key, best in similarity.items() if round(best, 6) >= threshold}
        others = [key for key, _ in ranking.ranked if key not in near]
        await compare(repository, ranking, others, self._tenants(others))
        if any(key not in similarity for key in others):
            self.course.warn("score_threshold was not applied where no similarity is known.")
        # Rounded as callers see it: a similarity that was shown lets its own result through.
        return [
            (key, score)
            for key, score in ranking.ranked
            if key not in similarity or round(similarity[key], 6) >= threshold
        ]

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
from app.filters import translate_filter_errors
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.costs import SearchCosts
from app.retrieval.expansion.auto_merge import auto_merge, drop_contained
from app.retrieval.expansion.expand import drop_overlapping, expand_hits
from app.retrieval.fusion.merge_sources import apply_weight, deduplicate_hits
from app.retrieval.repository import RetrievalRepository, RetrieverHits, RetrieverQuery
from app.retrieval.retrievers.ranking import RankedKeys, Ranking, may_have_more, split_with_ties
from app.retrieval.retrievers.similarity import fill_missing_similarities
from app.retrieval.search_run import (
    EXTRA_QUERIES_SKIPPED,
    RESULTS_MAY_BE_INCOMPLETE,
    THRESHOLD_NOT_APPLIED,
    SearchRun,
    get_failure_reason,
)
from app.retrieval.types import ChunkKey, Expansion, Hit, IndexRef, RetrieverName, SearchUnavailable, get_sort_key
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

RETRIEVER_CANDIDATES = 100
MAX_RETRIEVER_CANDIDATES = 1000  # as the lanes' functions have it
# Where hits become one, more are read at a time: else a long section would be read in many small steps.
MERGE_BATCH_SIZE = 50

# Lists of lanes up to which ranking takes some milliseconds.
MAX_INLINE_LISTS = 100
# SQLSTATE of a statement that has used up its time.
QUERY_CANCELED = "57014"
VECTORS_NOT_RETURNED = ServiceWarning(WarningCode.VECTORS_NOT_RETURNED, "The vectors could not be read.")

RankFunction = Callable[[Sequence[RetrieverHits]], Ranking]


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """``indexes`` are the knowledge bases by their search index, as keys begin; the best ``top_k`` are read.

    ``requested_top_k`` is what the caller gets of them, where more are read. ``retriever_candidates`` is what each lane
    gives at least. With ``explain`` hits get their places, and the course the plans.
    """

    db: TenantDatabase
    search_run: SearchRun
    indexes: Mapping[bytes, IndexRef]
    top_k: int
    score_threshold: float | None
    requested_top_k: int | None = None
    retriever_candidates: int = RETRIEVER_CANDIDATES
    expansion: Expansion | None = None
    return_vectors: bool = False
    explain: bool = False
    costs: SearchCosts = field(default_factory=SearchCosts)

    def with_limit(self, limit: int) -> Self:
        """The same for so many hits, of which the caller gets as many as before."""
        expansion = self.expansion and self.expansion.limit_characters(limit)
        return replace(self, top_k=limit, requested_top_k=self.requested_top_k or self.top_k, expansion=expansion)

    async def retrieve(
        self, calls: Sequence[RetrieverQuery], rank: RankFunction, *, extra_positions: frozenset[int] = frozenset()
    ) -> list[Hit]:
        """What ``rank`` makes of the lanes' lists, best first, ties by document and chunk_index.

        Both lanes in one statement, or beside each other where they are slow; after an error or a time-out each by
        itself, and a warning names the one that could not answer; the calls at the places in ``extra_positions`` are
        given up first. Where hits are missing that may stand behind the rows that the lanes gave, they are asked for
        more.

        Raises SearchUnavailable when none could, InvalidInputError for a filter that the database refuses,
        FilterTooExpensive, and RateLimitExceeded when expensive searches of the tenant are in front of this one.
        """
        database_timeout_seconds = self.search_run.compute_database_timeout(time_budget.RETRIEVERS_COMBINED)
        slot = self.costs.acquire_slot(
            self.db.tenant_id,
            calls,
            remaining_seconds=self.search_run.remaining_seconds,
            database_timeout_seconds=database_timeout_seconds,
        )
        async with slot:
            return await self._retrieve(calls, rank, extra_positions)

    async def _retrieve(
        self, calls: Sequence[RetrieverQuery], rank: RankFunction, extra_positions: frozenset[int]
    ) -> list[Hit]:
        try:
            hits, lists = await self._retrieve_combined(calls, rank)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            logger.warning("search.retrievers_failed", error=exc)
        else:
            return (
                await self._run_second_pass(calls, rank, hits) if self._needs_second_pass(hits, calls, lists) else hits
            )
        lists, answered = await self._run_separately(self._skip_extra_queries(extra_positions, calls))
        try:
            async with self._open_repository(time_budget.READING) as repository:
                ranking = await self._rank_lists(rank, lists)
                hits = await self._load_hits(repository, ranking.without_extra_lookups(), retriever=answered[0])
                return await self._with_vectors(repository, hits, dense="dense" in answered)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            raise SearchUnavailable from exc

    async def _retrieve_combined(
        self, calls: Sequence[RetrieverQuery], rank: RankFunction
    ) -> tuple[list[Hit], list[RetrieverHits]]:
        # Ranking inside saves a transaction: it is a matter of microseconds.
        async with self._open_repository(time_budget.RETRIEVERS_COMBINED) as repository:
            with self._record_cost(calls):
                lists = await self._run(repository, calls)
            ranking = await self._rank_lists(rank, lists)
            hits = await self._with_vectors(repository, await self._load_hits(repository, ranking))
            await self._record_plans(repository, calls)
        return hits, lists

    async def _rank_lists(self, rank: RankFunction, lists: Sequence[RetrieverHits]) -> Ranking:
        """Rank the lists; many of them in a thread, so that the loop serves other requests."""
        return rank(lists) if len(lists) <= MAX_INLINE_LISTS else await asyncio.to_thread(rank, lists)

    def _needs_second_pass(
        self, hits: Sequence[Hit], calls: Sequence[RetrieverQuery], lists: Sequence[RetrieverHits]
    ) -> bool:
        """Whether the caller gets too few, and the lanes may have more."""
        has_too_few = len(hits) < (self.requested_top_k or self.top_k)
        return has_too_few and may_have_more(calls, lists, size=self._candidate_limit, threshold=self.score_threshold)

    async def _run_second_pass(self, calls: Sequence[RetrieverQuery], rank: RankFunction, hits: list[Hit]) -> list[Hit]:
        """The same from all the rows that may be; where they are not to be had, what was found stands."""
        deep_retriever, now, is_second_pass_complete = (
            replace(self, retriever_candidates=MAX_RETRIEVER_CANDIDATES),
            datetime.now(UTC),
            False,
        )
        if self.search_run.remaining_seconds >= time_budget.MIN_SECOND_PASS_SECONDS:
            try:
                hits, lists = await deep_retriever._retrieve_combined(
                    [call.to_second_pass(now) for call in calls], rank
                )
                if not deep_retriever._needs_second_pass(hits, calls, lists):
                    return hits
                is_second_pass_complete = True
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.second_pass_failed", error=exc)
        # That nothing is found does not say that nothing matches; that nothing reaches a threshold is an answer.
        report = (
            self.search_run.add_notice
            if hits or (is_second_pass_complete and self.score_threshold is not None)
            else self.search_run.warn
        )
        report(RESULTS_MAY_BE_INCOMPLETE)
        return hits

    @asynccontextmanager
    async def _open_repository(
        self, time_share: float, *, snapshot: str | None = None
    ) -> AsyncIterator[RetrievalRepository]:
        """A transaction whose statements may each take this share of the time left, and all of them little more."""
        timeout_seconds = self.search_run.compute_database_timeout(time_share)
        # One snapshot for lanes and texts: a document that is replaced in between is found whole, old or new.
        transaction = self.db.read_transaction(snapshot=snapshot or True, statement_timeout_seconds=timeout_seconds)
        with self.search_run.charge_database_budget():
            async with asyncio.timeout(timeout_seconds + time_budget.DATABASE_GRACE_SECONDS), transaction as reader:
                yield RetrievalRepository(reader)

    async def _run(self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery]) -> list[RetrieverHits]:
        with self.search_run.time_step("retrieve"), translate_filter_errors(loc=("body", "filter")):
            if any(call.is_slow for call in calls) and self.db.database.has_idle_capacity:
                return await self._run_parallel(repository, calls)
            return await repository.run_retrievers(calls, size=self._candidate_limit)

    @contextmanager
    def _record_cost(self, calls: Sequence[RetrieverQuery]) -> Iterator[None]:
        """Note what the filters cost; also when the statement is cancelled because its time is over."""
        started_at = time.monotonic()
        try:
            yield
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) == QUERY_CANCELED:
                self.costs.record_cost(self.db.tenant_id, calls, time.monotonic() - started_at, timed_out=True)
            raise
        self.costs.record_cost(self.db.tenant_id, calls, time.monotonic() - started_at, timed_out=False)

    async def _run_parallel(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery]
    ) -> list[RetrieverHits]:
        """The lexical lane on a connection of its own, which sees what the transaction of the dense one sees.

        The dense one mostly takes longer, and so begins at once.
        """
        lexical = [replace(call, only_similarity=True) for call in calls]
        vectors = [None if call.only_similarity else call.vector for call in calls]
        dense = [
            replace(call, vector=vector, term_ids=(), keys=()) for call, vector in zip(calls, vectors, strict=True)
        ]
        lexical_task = self.search_run.start_background(
            self._run_lexical(await repository.reader.export_snapshot(), lexical)
        )
        try:
            dense_lists = await repository.run_retrievers(dense, size=self._candidate_limit)
            try:
                return [*dense_lists, *await lexical_task]
            except (DatabaseUnavailable, DatabaseRefused) as exc:  # no second connection: the one at hand does
                logger.warning("search.parallel_run_failed", error=exc)
                return [*dense_lists, *await repository.run_retrievers(lexical, size=self._candidate_limit)]
        finally:
            lexical_task.cancel()
            await asyncio.wait([lexical_task])

    async def _run_lexical(self, snapshot: str, calls: Sequence[RetrieverQuery]) -> list[RetrieverHits]:
        async with self._open_repository(time_budget.RETRIEVERS_COMBINED, snapshot=snapshot) as repository:
            return await repository.run_retrievers(calls, size=self._candidate_limit)

    @property
    def _candidate_limit(self) -> int:
        return max(self.retriever_candidates, self.top_k)

    def _skip_extra_queries(
        self, extra_positions: frozenset[int], calls: Sequence[RetrieverQuery]
    ) -> Sequence[RetrieverQuery]:
        """The calls as they stand, where those at these places ask nothing; the caller is told."""
        if not extra_positions:
            return calls
        self.search_run.degrade("extra_queries", "retrievers")
        self.search_run.add_notice(EXTRA_QUERIES_SKIPPED)
        return [
            replace(call, vector=None, term_ids=(), keys=()) if position in extra_positions else call
            for position, call in enumerate(calls)
        ]

    async def _run_separately(self, calls: Sequence[RetrieverQuery]) -> tuple[list[RetrieverHits], list[RetrieverName]]:
        """The lists, and the lanes that answered. Raises SearchUnavailable."""
        lists: list[RetrieverHits] = []
        answered: list[RetrieverName] = []
        calls_by_retriever: dict[RetrieverName, list[RetrieverQuery]] = {
            "lexical": [replace(call, vector=None, is_slow=False) for call in calls],
            # Asks nothing where only its cosines are wanted.
            "dense": [replace(call, term_ids=(), keys=(), is_slow=False) for call in calls],
        }
        for retriever, retriever_calls in calls_by_retriever.items():
            if not any(call.needs_search for call in retriever_calls):
                continue
            try:
                async with self._open_repository(time_budget.RETRIEVERS_SEPARATE) as repository:
                    lists += await self._run(repository, retriever_calls)
                answered.append(retriever)
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.retriever_failed", retriever=retriever, error=exc)
                message = f"The {retriever} lane could not answer."
                self.search_run.warn(ServiceWarning(WarningCode.RETRIEVER_UNAVAILABLE, message))
                self.search_run.degrade(retriever, get_failure_reason(exc))
        if not answered:
            raise SearchUnavailable
        return lists, answered

    async def _load_hits(
        self, repository: RetrievalRepository, ranking: Ranking, *, retriever: RetrieverName = "lexical"
    ) -> list[Hit]:
        """Texts and documents of the best; in the place of what is gone, expired or merged comes what follows."""
        with self.search_run.time_step("read"):
            remaining = await self._apply_threshold(repository, ranking)
            hits, remaining = await self._fill_hits(repository, ranking, [], remaining, retriever=retriever)
            if hits and (expansion := self.expansion) is not None and expansion.merge_share is not None:
                hits = self._deduplicate(
                    await auto_merge(repository, expansion, expansion.merge_share, hits, top_k=self.top_k)
                )
                hits, _ = await self._fill_hits(repository, ranking, hits, remaining, retriever=retriever)
        return self._with_ranks(ranking, hits[: self.top_k])

    async def _fill_hits(
        self,
        repository: RetrievalRepository,
        ranking: Ranking,
        hits: list[Hit],
        remaining: RankedKeys,
        *,
        retriever: RetrieverName,
    ) -> tuple[list[Hit], RankedKeys]:
        """As many as are wanted, if there are, and what was not read."""
        while remaining and len(hits) < self.top_k:
            limit = max(MERGE_BATCH_SIZE, self.top_k) if self._needs_merging and hits else self.top_k - len(hits)
            best, remaining = split_with_ties(remaining, limit)
            hits = [*hits, *await self._build_hits(repository, ranking, best, retriever=retriever)]
            hits.sort(key=get_sort_key)
            hits = self._deduplicate(hits)
            if self._needs_merging:
                hits = drop_overlapping(hits) if self._needs_separate_expansion else drop_contained(hits)
        return hits, remaining

    def _deduplicate(self, hits: list[Hit]) -> list[Hit]:
        """Texts that several knowledge bases have come from one of them."""
        return deduplicate_hits(hits) if len(self.indexes) > 1 else hits

    def apply_weights(self, ranked: RankedKeys) -> RankedKeys:
        """Scores as their knowledge bases count beside each other, best first; ties stay as they are."""
        if len({index.weight for index in self.indexes.values()}) < 2:
            return ranked
        weighted = [(key, apply_weight(score, self.indexes[key[:16]].weight)) for key, score in ranked]
        return sorted(weighted, key=lambda item: -item[1])

    def get_top_weight(self, hits: Sequence[Hit]) -> float:
        """What the best of these counts beside hits from elsewhere."""
        return self.indexes[hits[0].key[:16]].weight if hits else 1.0

    @property
    def _needs_merging(self) -> bool:
        return self.expansion is not None and self.expansion.kind != "window"

    @property
    def _needs_separate_expansion(self) -> bool:
        """Each hit for itself; with a share that decides they are looked at together."""
        return self.expansion is not None and self.expansion.merge_share is None

    async def _build_hits(
        self, repository: RetrievalRepository, ranking: Ranking, best: RankedKeys, *, retriever: RetrieverName
    ) -> Sequence[Hit]:
        keys, similarities = [key for key, _ in best], ranking.results.similarity
        tenants = self._get_tenant_ids(keys)
        await fill_missing_similarities(repository, ranking, keys, tenants)
        vector = ranking.vector if any(key not in similarities for key in keys) else None
        rows = await repository.load_chunks(keys, tenants=tenants, retriever=retriever, vector=vector)
        hits = [
            Hit(
                key,
                row.chunk,
                row.document,
                self.indexes[key[:16]].name,
                score,
                similarities.get(key, row.cosine),
                scores,
            )
            for (key, score), scores in zip(best, ranking.get_scores(best), strict=True)
            if (row := rows.get(key)) is not None
        ]
        if self.expansion is None or not self._needs_separate_expansion or not hits:
            return hits
        return await expand_hits(repository, self.expansion, hits)

    def _with_ranks(self, ranking: Ranking, hits: list[Hit]) -> list[Hit]:
        """With their places in the lanes, where these are asked for."""
        if not self.explain:
            return hits
        ranks = ranking.results.collect_ranks()
        return [replace(hit, ranks=ranks.get(hit.key, ())) for hit in hits]

    async def _with_vectors(self, repository: RetrievalRepository, hits: list[Hit], *, dense: bool = True) -> list[Hit]:
        if not self.return_vectors or not hits:
            return hits
        if not dense:
            self.search_run.warn(VECTORS_NOT_RETURNED)
            self.search_run.degrade("vectors", "dense")
            return hits
        with self.search_run.time_step("vectors"):
            tenants = [hit.document.tenant_id for hit in hits]
            vectors = await repository.load_vectors([hit.key for hit in hits], tenants=tenants)
        return [replace(hit, vector=vectors.get(hit.key)) for hit in hits]

    async def _record_plans(self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery]) -> None:
        """The plan of each index; it is the same for all queries. It counts others' chunks: not for a narrowed key."""
        if self.explain:
            for call in {call.index_id: call for call in calls if not call.is_user_restricted}.values():
                self.search_run.plans[call.index_id.bytes] = await repository.load_plan(
                    call, size=self._candidate_limit
                )

    def _get_tenant_ids(self, keys: Sequence[ChunkKey]) -> list[UUID]:
        return [self.indexes[key[:16]].tenant_id for key in keys]

    async def _apply_threshold(self, repository: RetrievalRepository, ranking: Ranking) -> RankedKeys:
        threshold, similarity = self.score_threshold, ranking.results.similarity
        if threshold is None:
            return ranking.ranked_keys
        # What reaches it already is compared as it is read.
        above_threshold = {key for key, best in similarity.items() if round(best, 6) >= threshold}
        others = [key for key, _ in ranking.ranked_keys if key not in above_threshold]
        await fill_missing_similarities(repository, ranking, others, self._get_tenant_ids(others))
        if any(key not in similarity for key in others):
            self.search_run.warn(THRESHOLD_NOT_APPLIED)
        # Rounded as callers see it: a similarity that was shown lets its own result through.
        return [
            (key, score)
            for key, score in ranking.ranked_keys
            if key not in similarity or round(similarity[key], 6) >= threshold
        ]

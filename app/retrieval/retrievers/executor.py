"""Execution of the retrievers within the remaining time of the search, with a second pass and a fallback."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from sqlalchemy.exc import DBAPIError

from app.db.session import DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.filters import translate_filter_errors
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.costs import SearchCosts
from app.retrieval.fusion.merge_sources import apply_weight
from app.retrieval.index_refs import IndexRef
from app.retrieval.repeated_texts import RepeatCheck, count_fresh
from app.retrieval.repository import RetrievalRepository, RetrieverHits, RetrieverQuery
from app.retrieval.retrievers.hit_loader import HitLoader
from app.retrieval.retrievers.ranking import ListRanker, Ranking, may_have_more, merge_passes
from app.retrieval.retrievers.similarity import complete_cosines
from app.retrieval.search_run import (
    EXTRA_QUERIES_SKIPPED,
    RESULTS_MAY_BE_INCOMPLETE,
    SearchRun,
    get_failure_reason,
)
from app.retrieval.types import Expansion, Hit, RetrieverName, SearchUnavailable
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

RETRIEVER_CANDIDATES = 100
MAX_RETRIEVER_CANDIDATES = 1000  # the limit of the search functions in the database
# Number of ranked lists up to which ranking takes only some milliseconds.
MAX_INLINE_LISTS = 100
# SQLSTATE of a statement that exceeded its time limit.
QUERY_CANCELED = "57014"


@dataclass(frozen=True, slots=True)
class RetrieverPass:
    """One pass over the candidates.

    Attributes:
        lists: Results of the retrievers, with those of an earlier pass.
        ranking: Ranked list of the strategy.
        size: Maximum number of rows of one list.
        may_have_more: Whether a retriever may have further rows.
        hits: Loaded hits, best first.
    """

    lists: Sequence[RetrieverHits]
    ranking: Ranking
    size: int
    may_have_more: bool
    hits: list[Hit] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """Executor of the dense and the lexical retriever for one search.

    Attributes:
        db: Database in the tenant's scope.
        search_run: Deadline, timings and warnings of the search.
        indexes: Knowledge bases by the id of their search index, 16 bytes.
        top_k: Number of hits to load.
        score_thresholds: Minimum similarity of the hits of a search index, by the 16 bytes of its id; an index without
            a limit is left out.
        requested_top_k: Number of hits that the caller gets, if it differs from ``top_k``.
        retriever_candidates: Minimum number of rows that each retriever returns.
        expansion: Expansion of the hits' texts; None for none.
        return_vectors: Whether hits get their vectors.
        explain: Whether hits get their ranks, and the search run gets the plans.
        repeats: Treatment of hits that repeat the conversation; None if they are like other hits.
        collapse: Whether identical texts of one knowledge base become one hit.
        costs: Slots for expensive searches.
    """

    db: TenantDatabase
    search_run: SearchRun
    indexes: Mapping[bytes, IndexRef]
    top_k: int
    score_thresholds: Mapping[bytes, float] = field(default_factory=dict)
    requested_top_k: int | None = None
    retriever_candidates: int = RETRIEVER_CANDIDATES
    expansion: Expansion | None = None
    return_vectors: bool = False
    explain: bool = False
    repeats: RepeatCheck | None = None
    collapse: bool = False
    costs: SearchCosts = field(default_factory=SearchCosts)

    def with_limit(self, limit: int) -> Self:
        """Return a copy that loads ``limit`` hits; the caller still gets as many as before."""
        expansion = self.expansion and self.expansion.limit_characters(limit)
        return replace(self, top_k=limit, requested_top_k=self.requested_top_k or self.top_k, expansion=expansion)

    def with_candidates(self, multiplier: int) -> Self:
        """Return a copy whose retrievers return at least ``multiplier`` rows for each hit that the caller gets."""
        wanted = min(multiplier * (self.requested_top_k or self.top_k), MAX_RETRIEVER_CANDIDATES)
        return replace(self, retriever_candidates=max(self.retriever_candidates, wanted))

    async def retrieve(
        self, calls: Sequence[RetrieverQuery], ranker: ListRanker, *, extra_positions: frozenset[int] = frozenset()
    ) -> list[Hit]:
        """Run both retrievers, rank their results, and load the best hits.

        Both retrievers run in one statement, or in parallel if they are slow. After an error or a timeout, each
        retriever runs alone, without the queries that transformers added. A warning names the retriever that failed. If
        hits are missing and a list reached its limit, a second pass reads more rows. A strategy that scales scores
        ranks the candidates of the first pass alone. Further rows follow behind them, so that the first hits and their
        scores do not depend on ``top_k``.

        Args:
            calls: Queries in search indexes.
            ranker: Ranking of the lists of the retrievers.
            extra_positions: Indexes of the calls for extra queries, which transformers added.

        Returns:
            At most ``top_k`` hits, best first, ties by document and chunk index.

        Raises:
            SearchUnavailable: No retriever answered.
            InvalidInputError: The database refuses the filter.
            FilterTooExpensive: The filter needs more time than the search has.
            RateLimitExceeded: No slot for expensive searches became free in time.
        """
        database_timeout_seconds = self.search_run.compute_database_timeout(time_budget.RETRIEVERS_COMBINED)
        slot = self.costs.acquire_slot(
            self.db.tenant_id,
            calls,
            remaining_seconds=self.search_run.remaining_seconds,
            database_timeout_seconds=database_timeout_seconds,
        )
        async with slot:
            return await self._retrieve(calls, ranker, extra_positions)

    async def _retrieve(
        self, calls: Sequence[RetrieverQuery], ranker: ListRanker, extra_positions: frozenset[int]
    ) -> list[Hit]:
        try:
            first = await self._retrieve_combined(calls, ranker)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            logger.warning("search.retrievers_failed", error=exc)
            if ranker.refiner is not None:
                ranker.refiner.report_skipped(get_failure_reason(exc))
        else:
            return await self._run_second_pass(calls, ranker, first) if self._needs_second_pass(first) else first.hits
        lists, answered = await self._run_separately(self._skip_extra_queries(extra_positions, calls))
        try:
            async with self._open_repository(time_budget.READING) as repository:
                ranking = self._apply_weights(await self._rank(ranker, lists))
                loader = self._create_loader(repository)
                hits = await loader.load_hits(ranking.without_extra_lookups(), retriever=answered[0])
                return await loader.add_vectors(hits, has_dense="dense" in answered)
        except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
            raise SearchUnavailable from exc

    async def _retrieve_combined(
        self, calls: Sequence[RetrieverQuery], ranker: ListRanker, first: RetrieverPass | None = None
    ) -> RetrieverPass:
        """Run both retrievers and load the hits, in one transaction.

        Args:
            calls: Queries in search indexes.
            ranker: Ranking of the lists of the retrievers.
            first: The pass whose candidates come first; None for none.
        """
        candidates = self.retriever_candidates if ranker.is_scaled else max(self.retriever_candidates, self.top_k)
        # Ranking takes microseconds, so it runs inside the transaction. This saves a second one.
        async with self._open_repository(time_budget.RETRIEVERS_COMBINED) as repository:
            latest = await self._run_pass(repository, calls, ranker, size=candidates, first=first)
            if candidates < self.top_k and len(latest.ranking.ranked_keys) < self.top_k and latest.may_have_more:
                latest = await self._run_pass(repository, calls, ranker, size=self.top_k, first=latest)
            loader = self._create_loader(repository)
            hits = await loader.add_vectors(await loader.load_hits(latest.ranking))
            await self._record_plans(repository, calls, size=latest.size)
        return replace(latest, hits=hits)

    async def _run_pass(
        self,
        repository: RetrievalRepository,
        calls: Sequence[RetrieverQuery],
        ranker: ListRanker,
        *,
        size: int,
        first: RetrieverPass | None,
    ) -> RetrieverPass:
        """Run both retrievers and rank their lists, behind the candidates of the first pass if there is one."""
        with self._record_cost(calls):
            lists = await self._run(repository, calls, size)
        has_more = may_have_more(calls, lists, size=size, thresholds=self.score_thresholds)
        if first is None:
            ranking = await self._rank(ranker, lists, repository)
            if ranker.refiner is not None:
                refined = await ranker.refiner.refine(repository, calls, ranking)
                ranking = replace(ranking, ranked_keys=refined)
            return RetrieverPass(lists, self._apply_weights(ranking), size, has_more)
        merged = merge_passes(first.lists, lists)
        ranking = first.ranking.extend(self._apply_weights(await self._rank(ranker, merged, repository)))
        return RetrieverPass(merged, ranking, size, has_more)

    async def _rank(
        self, ranker: ListRanker, lists: Sequence[RetrieverHits], repository: RetrievalRepository | None = None
    ) -> Ranking:
        """Rank the lists. Many lists are ranked in a thread, so that the event loop serves other requests.

        With a repository, cosines that the strategy needs and the retrievers did not compute are looked up.
        """
        if len(lists) > MAX_INLINE_LISTS:
            return await asyncio.to_thread(lambda: ranker.rank_results(ranker.group(lists)))
        results = ranker.group(lists)
        if repository is not None and ranker.needs_cosines and ranker.model_query_vectors:
            tenants = {index: reference.tenant_id for index, reference in self.indexes.items()}
            await complete_cosines(repository, results, ranker.model_query_vectors, tenants)
        return ranker.rank_results(results)

    def _needs_second_pass(self, latest: RetrieverPass) -> bool:
        """Return whether there are too few hits and the retrievers may have more rows."""
        return latest.may_have_more and count_fresh(latest.hits) < (self.requested_top_k or self.top_k)

    async def _run_second_pass(
        self, calls: Sequence[RetrieverQuery], ranker: ListRanker, first: RetrieverPass
    ) -> list[Hit]:
        """Query again with the maximum number of candidates. If that fails, return the first hits."""
        deep_retriever, now = replace(self, retriever_candidates=MAX_RETRIEVER_CANDIDATES), datetime.now(UTC)
        hits, is_second_pass_complete = first.hits, False
        if self.search_run.remaining_seconds >= time_budget.MIN_SECOND_PASS_SECONDS:
            try:
                deep_calls = [call.to_second_pass(now) for call in calls]
                deeper = await deep_retriever._retrieve_combined(
                    deep_calls, ranker, first if ranker.is_scaled else None
                )
                hits = deeper.hits
                if not deep_retriever._needs_second_pass(deeper):
                    return hits
                is_second_pass_complete = True
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.second_pass_failed", error=exc)
        # Without hits, the message is a warning, because unread rows may match. A notice is enough if there are hits,
        # or if the second pass proved that the best rows do not reach the threshold.
        report = (
            self.search_run.add_notice
            if hits or (is_second_pass_complete and self.score_thresholds.keys() >= self.indexes.keys())
            else self.search_run.warn
        )
        report(RESULTS_MAY_BE_INCOMPLETE)
        return hits

    @asynccontextmanager
    async def _open_repository(
        self, time_share: float, *, snapshot: str | None = None
    ) -> AsyncIterator[RetrievalRepository]:
        """Open a transaction whose statements may each take a share of the remaining time.

        The whole transaction may take the same time plus ``DATABASE_GRACE_SECONDS``.
        """
        timeout_seconds = self.search_run.compute_database_timeout(time_share)
        # One snapshot for retrievers and texts, so that a replaced document is read as a whole, old or new.
        transaction = self.db.read_transaction(snapshot=snapshot or True, statement_timeout_seconds=timeout_seconds)
        with self.search_run.charge_database_budget():
            async with asyncio.timeout(timeout_seconds + time_budget.DATABASE_GRACE_SECONDS), transaction as reader:
                yield RetrievalRepository(reader)

    async def _run(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], size: int
    ) -> list[RetrieverHits]:
        with self.search_run.time_step("retrieve"), translate_filter_errors(loc=("body", "filter")):
            if any(call.is_slow for call in calls) and self.db.database.has_idle_capacity:
                return await self._run_parallel(repository, calls, size)
            return await repository.run_retrievers(calls, size=size)

    @contextmanager
    def _record_cost(self, calls: Sequence[RetrieverQuery]) -> Iterator[None]:
        """Record the cost of the filters, also if the statement is cancelled at its time limit."""
        started_at = time.monotonic()
        try:
            yield
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) == QUERY_CANCELED:
                self.costs.record_cost(self.db.tenant_id, calls, time.monotonic() - started_at, timed_out=True)
            raise
        self.costs.record_cost(self.db.tenant_id, calls, time.monotonic() - started_at, timed_out=False)

    async def _run_parallel(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], size: int
    ) -> list[RetrieverHits]:
        """Run the lexical retriever on a second connection with the same snapshot.

        The dense retriever usually takes longer, so it starts without waiting for the second connection.
        """
        lexical = [replace(call, only_similarity=True) for call in calls]
        vectors = [None if call.only_similarity else call.vector for call in calls]
        dense = [
            replace(call, vector=vector, term_ids=(), keys=()) for call, vector in zip(calls, vectors, strict=True)
        ]
        lexical_task = self.search_run.start_background(
            self._run_lexical(await repository.reader.export_snapshot(), lexical, size)
        )
        try:
            dense_lists = await repository.run_retrievers(dense, size=size)
            try:
                return [*dense_lists, *await lexical_task]
            except (DatabaseUnavailable, DatabaseRefused) as exc:  # no second connection: use the first one
                logger.warning("search.parallel_run_failed", error=exc)
                return [*dense_lists, *await repository.run_retrievers(lexical, size=size)]
        finally:
            lexical_task.cancel()
            await asyncio.wait([lexical_task])

    async def _run_lexical(self, snapshot: str, calls: Sequence[RetrieverQuery], size: int) -> list[RetrieverHits]:
        async with self._open_repository(time_budget.RETRIEVERS_COMBINED, snapshot=snapshot) as repository:
            return await repository.run_retrievers(calls, size=size)

    def _skip_extra_queries(
        self, extra_positions: frozenset[int], calls: Sequence[RetrieverQuery]
    ) -> Sequence[RetrieverQuery]:
        """Return the calls with an empty call in place of each extra query, and add a notice."""
        if not extra_positions:
            return calls
        self.search_run.degrade("extra_queries", "retrievers")
        self.search_run.add_notice(EXTRA_QUERIES_SKIPPED)
        return [
            replace(call, vector=None, term_ids=(), keys=()) if position in extra_positions else call
            for position, call in enumerate(calls)
        ]

    async def _run_separately(self, calls: Sequence[RetrieverQuery]) -> tuple[list[RetrieverHits], list[RetrieverName]]:
        """Run each retriever alone, and return the lists and the retrievers that answered.

        Raises:
            SearchUnavailable: No retriever answered.
        """
        lists: list[RetrieverHits] = []
        answered: list[RetrieverName] = []
        calls_by_retriever: dict[RetrieverName, list[RetrieverQuery]] = {
            "lexical": [replace(call, vector=None, is_slow=False) for call in calls],
            # A call that needs only cosines is empty here.
            "dense": [replace(call, term_ids=(), keys=(), is_slow=False) for call in calls],
        }
        for retriever, retriever_calls in calls_by_retriever.items():
            if not any(call.needs_search for call in retriever_calls):
                continue
            try:
                async with self._open_repository(time_budget.RETRIEVERS_SEPARATE) as repository:
                    lists += await self._run(repository, retriever_calls, max(self.retriever_candidates, self.top_k))
                answered.append(retriever)
            except (DBAPIError, TimeoutError, DatabaseUnavailable) as exc:
                logger.warning("search.retriever_failed", retriever=retriever, error=exc)
                message = f"The {retriever} retriever did not answer."
                self.search_run.warn(ServiceWarning(WarningCode.RETRIEVER_UNAVAILABLE, message))
                self.search_run.degrade(retriever, get_failure_reason(exc))
        if not answered:
            raise SearchUnavailable
        return lists, answered

    def _apply_weights(self, ranking: Ranking) -> Ranking:
        """Apply the weights of the knowledge bases to the scores, and sort best first; ties keep their order."""
        if len({index.weight for index in self.indexes.values()}) < 2:
            return ranking
        weighted = [(key, apply_weight(score, self.indexes[key[:16]].weight)) for key, score in ranking.ranked_keys]
        return replace(ranking, ranked_keys=sorted(weighted, key=lambda item: -item[1]))

    def _create_loader(self, repository: RetrievalRepository) -> HitLoader:
        return HitLoader(
            repository=repository,
            search_run=self.search_run,
            indexes=self.indexes,
            top_k=self.top_k,
            score_thresholds=self.score_thresholds,
            expansion=self.expansion,
            return_vectors=self.return_vectors,
            explain=self.explain,
            repeats=self.repeats,
            collapse=self.collapse,
        )

    async def _record_plans(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], *, size: int
    ) -> None:
        """Record the plan of each index, except for restricted keys: a plan reveals the number of all chunks."""
        if self.explain:
            for call in {call.index_id: call for call in calls if not call.is_user_restricted}.values():
                self.search_run.plans[call.index_id.bytes] = await repository.load_plan(call, size=size)

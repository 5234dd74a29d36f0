"""Walk of one search: it starts at the names of the queries and at the best hits, and ranks the chunks it reaches."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.graph.keys import compute_entity_key
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.graph_walk.repository import GraphWalkRepository
from app.retrieval.graph_walk.types import QueryEntity, WalkIndex, WalkOutcome, WalkSettings, WalkStart
from app.retrieval.graph_walk.walk_scores import (
    build_paths,
    list_question_names,
    rank_walk,
    select_query_entities,
)
from app.retrieval.repository import RetrievalRepository, RetrieverQuery
from app.retrieval.retrievers.ranking import RankedKeys, Ranking
from app.retrieval.search_run import SearchRun, get_failure_reason
from app.retrieval.types import ChunkKey
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)
T = TypeVar("T")
MAX_INLINE_CHARACTERS = 1_000
"""Number of characters of all questions up to which finding their names takes at most some milliseconds."""


NOTHING_TO_WALK = ServiceWarning(
    WarningCode.GRAPH_NOTHING_TO_WALK,
    "No entity leads from the query or the best results to other chunks, so the results are those of hybrid.",
)
GRAPH_SKIPPED = ServiceWarning(
    WarningCode.GRAPH_SKIPPED, "The walk in the graph took too long or failed, so the results are those of hybrid."
)
WALK_CUT = ServiceWarning(
    WarningCode.GRAPH_WALK_CUT,
    "The walk in the graph left out entities of little weight, because it reads a limited number of chunks.",
)


@dataclass(slots=True)
class GraphWalker:
    """Walk of one search.

    Attributes:
        settings: Settings of the walk.
        search_run: Deadline, timings and warnings of the search.
        indexes: Search indexes of the searched knowledge bases.
        questions: Texts of the queries.
        outcome: Outcome of the walk, after it.
    """

    settings: WalkSettings
    search_run: SearchRun
    indexes: Sequence[WalkIndex]
    questions: Sequence[str]
    outcome: WalkOutcome = field(default_factory=WalkOutcome)

    async def refine(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], ranking: Ranking
    ) -> RankedKeys:
        """Rank the chunks of the hybrid search and of the walk together.

        If the walk fails or takes too long, the ranking stays as it is, and the caller gets a warning.

        Args:
            repository: Repository of the search.
            calls: Queries in search indexes, for the cosines of reached chunks.
            ranking: Ranking of the hybrid search.
        """
        try:
            timeout_seconds = self.search_run.compute_database_timeout(time_budget.GRAPH_WALK)
            with self.search_run.time_step("graph"):
                async with repository.reader.savepoint(statement_timeout_seconds=timeout_seconds):
                    return await self._walk(repository, calls, ranking)
        except (DBAPIError, TimeoutError) as exc:
            logger.warning("search.graph_walk_failed", error=exc)
            self.report_skipped(get_failure_reason(exc))
            return ranking.ranked_keys

    def report_skipped(self, reason: str) -> None:
        """Warn the caller that the search ran without a walk."""
        self.outcome = WalkOutcome()
        self.search_run.warn(GRAPH_SKIPPED)
        self.search_run.degrade("graph", reason)

    async def _walk(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], ranking: Ranking
    ) -> RankedKeys:
        walks = GraphWalkRepository(repository.reader)
        starts = await self._build_starts(walks, ranking.ranked_keys)
        if not any(start.seeds or start.entities for start in starts):
            self.search_run.add_notice(NOTHING_TO_WALK)
            return ranking.ranked_keys
        rows = await walks.walk(starts, self.settings)
        if any(row.is_cut for row in rows):
            self.search_run.add_notice(WALK_CUT)
        last_step = self.settings.max_hops
        masses = {row.chunk: row.mass for row in rows if row.step == last_step and row.mass > 0}
        paths = build_paths(rows, {key for key, _ in ranking.ranked_keys[: self.settings.seeds]})
        self.outcome = WalkOutcome(
            paths,
            masses,
            {start.index.index_id.bytes: start.entities for start in starts},
            {start.index.index_id.bytes: start.state.aliases for start in starts},
        )
        if not paths:
            self.search_run.add_notice(NOTHING_TO_WALK)
            return ranking.ranked_keys
        await self._add_cosines(repository, calls, ranking, [*masses])
        return rank_walk(ranking.ranked_keys, masses, ranking.results, self.settings)

    async def _build_starts(self, walks: GraphWalkRepository, ranked: RankedKeys) -> list[WalkStart]:
        """Build the starts in the search indexes that have a graph. All masses together are 1."""
        seeds: dict[UUID, dict[UUID, float]] = {}
        for key, score in ranked[: self.settings.seeds]:
            if score > 0:
                seeds.setdefault(UUID(bytes=key[:16]), {})[UUID(bytes=key[16:])] = score
        names = await self._run(partial(list_question_names, self.questions))
        starts: list[WalkStart] = []
        missing: list[str] = []
        for index in self.indexes:
            candidates = {name: compute_entity_key(index.kb_id, name) for name in names}
            state = await walks.load_state(index, list(candidates.values()))
            if state is None or not state.has_graph:
                missing.append(index.name)
                continue
            entities = await self._run(
                partial(select_query_entities, self.questions, candidates, state, self.settings.max_entity_share)
            )
            index_seeds = seeds.get(index.index_id, {})
            starts.append(WalkStart(index, state, [*index_seeds], [*index_seeds.values()], entities))
        if missing:
            kb_names = ", ".join(dict.fromkeys(missing))
            message = f"{kb_names}: searched with hybrid, because the search index has no graph. Reindex to build it."
            self.search_run.add_notice(ServiceWarning(WarningCode.GRAPH_MISSING, message))
        return _scale_masses(starts, self.settings.query_weight)

    async def _run(self, work: Callable[[], T]) -> T:
        """Run work that reads the questions; in a thread if they are long, so that other requests do not wait."""
        is_long = sum(map(len, self.questions)) > MAX_INLINE_CHARACTERS
        return await asyncio.to_thread(work) if is_long else work()

    async def _add_cosines(
        self,
        repository: RetrievalRepository,
        calls: Sequence[RetrieverQuery],
        ranking: Ranking,
        keys: Sequence[ChunkKey],
    ) -> None:
        """Compute the highest cosine of the reached chunks with the queries."""
        similarity = ranking.results.similarity
        calls_by_index: dict[bytes, list[RetrieverQuery]] = {}
        for call in calls:
            if call.vector is not None:
                calls_by_index.setdefault(call.index_id.bytes, []).append(call)
        for index, index_calls in calls_by_index.items():
            missing = [key for key in keys if key[:16] == index and key not in similarity]
            if missing:
                vectors = [call.vector for call in index_calls if call.vector is not None]
                tenants = [index_calls[0].tenant_id] * len(missing)
                similarity.update(await repository.compute_cosines(missing, tenants, vectors=vectors))
                for key in missing:
                    ranking.results.compared_queries[key] = (1 << len(vectors)) - 1


def _scale_masses(starts: Sequence[WalkStart], query_weight: float) -> list[WalkStart]:
    """Scale the masses of all starts together: the queries' entities have ``query_weight``, and the seeds the rest."""
    entity_total = sum(entity.weight for start in starts for entity in start.entities)
    seed_total = sum(mass for start in starts for mass in start.seed_masses)
    entity_share = (query_weight if seed_total > 0 else 1.0) if entity_total > 0 else 0.0
    scaled: list[WalkStart] = []
    for start in starts:
        entities: list[QueryEntity] = [
            entity._replace(weight=entity.weight * entity_share / entity_total) for entity in start.entities
        ]
        masses = [mass * (1 - entity_share) / seed_total for mass in start.seed_masses] if seed_total > 0 else []
        seeds = start.seeds if seed_total > 0 else ()
        scaled.append(replace(start, entities=entities, seed_masses=masses, seeds=seeds))
    return scaled

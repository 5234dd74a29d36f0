"""Search of the stored documents: one part for all knowledge bases with the same strategy and the same queries."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from app.db.session import TenantDatabase
from app.errors import AppError, InvalidInputError, UnavailableError
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.types import IndexMismatch
from app.logging import get_logger
from app.quotas.types import DailyTokenLimitReached
from app.retrieval.costs import MIN_WEIGHT, SearchCosts
from app.retrieval.fusion.merge_sources import SourceHits, merge_sources
from app.retrieval.hit_order import get_sort_key
from app.retrieval.language_check import warn_unread_languages
from app.retrieval.query_embedding import QueryEmbedder, check_dimensions, drop_unusable_queries, warn_dimensions
from app.retrieval.repeated_texts import RepeatCheck
from app.retrieval.retrievers.executor import RETRIEVER_CANDIDATES, HybridRetriever
from app.retrieval.search_run import SearchRun
from app.retrieval.source_rewriting import PlannedQueries
from app.retrieval.strategies.strategy import (
    SearchContext,
    SearchTarget,
    Strategy,
    collect_index_refs,
    collect_score_thresholds,
)
from app.retrieval.types import Combination, Hit, Query, SearchRequest
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

MAX_CONCURRENT_PARTS = 4
"""Maximum number of parts of one search that use a database connection at the same time."""

MIN_PART_WEIGHT = 0.05
"""Minimum weight of a part in the merge, so that its hits keep an order."""

DEFAULT_COSINE_SPAN = 0.4
"""Difference of cosines that counts fully in the merge, for a model without a measured span."""

PART_FAILURES = (UnavailableError, IndexMismatch, DailyTokenLimitReached)
"""Failures of one part that the other parts of a search can answer without."""


@dataclass(frozen=True, slots=True)
class SearchPart:
    """Part of a search: knowledge bases that are searched together.

    Attributes:
        strategy: Strategy of the part.
        options: Options of the strategy.
        queries: Queries of the part.
        targets: Knowledge bases of the part, at least one.
        combine: How the scores of a chunk for several queries count; None for the default of the strategy.
    """

    strategy: Strategy[Any]
    options: BaseModel
    queries: Sequence[Query]
    targets: Sequence[SearchTarget]
    combine: Combination | None = None

    @property
    def names(self) -> str:
        """Names of the knowledge bases, for messages."""
        return ", ".join(dict.fromkeys(target.kb.display_name for target in self.targets))


def build_parts(planned: Sequence[PlannedQueries]) -> list[SearchPart]:
    """Group knowledge bases with the same plan and queries, so that one ranking compares them.

    Args:
        planned: Queries and plan of each knowledge base.

    Returns:
        The parts. Own knowledge bases come before shared ones in a part.
    """
    groups: dict[Hashable, list[PlannedQueries]] = {}
    for item in planned:
        queries = tuple(_get_query_key(query) for query in item.queries)
        key = (item.plan.strategy.name, item.plan.options.model_dump_json(), queries, item.plan.combine)
        groups.setdefault(key, []).append(item)
    return [
        SearchPart(
            items[0].plan.strategy,
            items[0].plan.options,
            items[0].queries,
            sorted((target for item in items for target in item.plan.targets), key=lambda target: target.kb.is_shared),
            items[0].plan.combine,
        )
        for items in groups.values()
    ]


def _get_query_key(query: Query) -> Hashable:
    return id(query) if query.vector is not None or query.image is not None else (query.text, query.is_extra)


def drop_unusable_parts(parts: Sequence[SearchPart], search_run: SearchRun, embedders: Embedders) -> list[SearchPart]:
    """Drop the queries that the strategy or the models of a part cannot search, and the parts without a query.

    Args:
        parts: Parts of the search.
        search_run: Collector of the warnings.
        embedders: Configured embedding models.

    Returns:
        The parts that have a query. None remain if all queries are images that no model takes.

    Raises:
        InvalidInputError: No part has a usable query.
    """
    usable: list[SearchPart] = []
    refused: list[SearchPart] = []
    failure: InvalidInputError | None = None
    for part in parts:
        try:
            queries = drop_unusable_queries(
                part.queries,
                search_run,
                uses_dense=part.strategy.name != "lexical",
                accepts_images=accepts_images(part.targets, embedders),
            )
        except InvalidInputError as exc:
            failure = exc
            refused.append(part)
        else:
            usable += [replace(part, queries=queries)] if queries else []
    if failure is not None and not usable:
        raise failure
    for part in refused:
        message = f"{part.names}: not searched, because the strategy {part.strategy.name!r} can search no query."
        search_run.warn(ServiceWarning(WarningCode.KNOWLEDGE_BASES_SKIPPED, message))
    return usable


def accepts_images(targets: Sequence[SearchTarget], embedders: Embedders) -> bool:
    """Return whether an embedding model of the targets, or any model if there are none, embeds images."""
    models = [target.embedder for target in targets if target.embedder is not None] or embedders.all
    return any(model.image_embedder is not None for model in models)


@dataclass(frozen=True, slots=True)
class PartSearcher:
    """Searcher of the parts of one search.

    Attributes:
        db: Database in the tenant's scope.
        embedders: Configured embedding models.
        query_embedder: Embedder of queries, with a cache.
        search_run: Deadline, timings and warnings of the search.
        request: The search request.
        top_k: Number of hits to find.
        requested_top_k: Number of hits that the caller gets.
        costs: Slots for expensive searches.
        retriever_candidates: Minimum number of rows that each retriever returns.
        repeats: Check of texts that are already in the conversation; None for no check.
    """

    db: TenantDatabase
    embedders: Embedders
    query_embedder: QueryEmbedder
    search_run: SearchRun
    request: SearchRequest
    top_k: int
    requested_top_k: int
    costs: SearchCosts
    retriever_candidates: int = RETRIEVER_CANDIDATES
    repeats: RepeatCheck | None = None

    def check_parts(self, parts: Sequence[SearchPart]) -> None:
        """Refuse a search that no knowledge base can answer, and warn of parts that only one retriever can search.

        Args:
            parts: Parts of the search.

        Raises:
            InvalidInputError: A provided vector has other dimensions than every search index.
            IndexMismatch: Only one strategy searches, it is dense, and no configured model fits.
        """
        queries = {id(query): query for part in parts for query in part.queries}
        sizes = [target.kb.index.dim for part in parts for target in part.targets]
        check_dimensions(list(queries.values()), sizes)
        for part in parts:
            self._check_part(part, is_only=len(parts) == 1)

    async def run(self, parts: Sequence[SearchPart]) -> list[Hit]:
        """Search all parts at the same time, and merge their hits.

        Args:
            parts: Parts of the search, at least one.

        Returns:
            The hits, best first; may be more than ``top_k``.

        Raises:
            AppError: Every part failed, or a part failed for a reason that concerns the whole search.
        """
        if len(parts) == 1:
            return await self._run_part(parts[0])
        # Expensive searches of one tenant wait for each other, so the parts of one search must not run together.
        is_expensive = any(target.filter.weight >= MIN_WEIGHT for part in parts for target in part.targets)
        semaphore = asyncio.Semaphore(1 if is_expensive else MAX_CONCURRENT_PARTS)

        async def run_in_turn(part: SearchPart) -> list[Hit]:
            async with semaphore:
                return await self._run_part(part)

        results = await asyncio.gather(*map(run_in_turn, parts), return_exceptions=True)
        answered: list[tuple[SearchPart, list[Hit]]] = []
        failures: list[tuple[SearchPart, AppError]] = []
        for part, result in zip(parts, results, strict=True):
            if isinstance(result, PART_FAILURES):
                failures.append((part, result))
            elif isinstance(result, BaseException):
                raise result
            else:
                answered.append((part, result))
        if not answered:
            raise failures[0][1]
        for part, failure in failures:
            logger.warning("search.part_failed", error=failure)
            message = f"{part.names}: not searched. {failure.message}"
            self.search_run.warn(ServiceWarning(WarningCode.KNOWLEDGE_BASES_SKIPPED, message))
        return merge_parts(answered)

    async def _run_part(self, part: SearchPart) -> list[Hit]:
        retriever = HybridRetriever(
            db=self.db,
            search_run=self.search_run,
            indexes=collect_index_refs(part.targets),
            top_k=self.top_k,
            requested_top_k=self.requested_top_k,
            score_thresholds=collect_score_thresholds(part.targets),
            retriever_candidates=self.retriever_candidates,
            expansion=self.request.expansion and self.request.expansion.limit_characters(self.top_k),
            return_vectors=self.request.return_vectors,
            explain=self.request.explain,
            repeats=self.repeats,
            collapse=self.request.collapse,
            costs=self.costs,
        )
        context = SearchContext(
            retriever, self.query_embedder, self.search_run, part.queries, part.targets, part.combine
        )
        return await part.strategy.run(context, part.options)

    def _check_part(self, part: SearchPart, *, is_only: bool) -> None:
        targets, queries, search_run = part.targets, part.queries, self.search_run
        if part.strategy.name != "dense":
            for reason in filter(None, [target.kb.analyzer_mismatch for target in targets]):
                message = f"{reason} Until then, some words do not match."
                search_run.add_notice(ServiceWarning(WarningCode.ANALYZER_MISMATCH, message))
        if part.strategy.name == "lexical":
            return
        warn_unread_languages(queries, targets, self.embedders, search_run)
        for target in targets:
            warn_dimensions(queries, search_run, name=target.kb.display_name, size=target.kb.index.dim)
        vector_queries = [query for query in queries if query.vector is not None]
        if len(vector_queries) == len(queries):
            return
        mismatched = [target.kb for target in targets if target.embedder is None]
        if is_only and part.strategy.name == "dense" and len(mismatched) == len(targets) and not vector_queries:
            targets[0].kb.require_match(self.embedders.identities)
        for kb in mismatched:
            message = f"{kb.find_mismatch(self.embedders.identities)} Its dense retriever was skipped."
            search_run.warn(ServiceWarning(WarningCode.EMBEDDING_MODEL_MISMATCH, message))
        if any(query.image is not None for query in queries):
            self._warn_text_models(targets)

    def _warn_text_models(self, targets: Sequence[SearchTarget]) -> None:
        """Warn of targets whose embedding model takes no images."""
        for target in targets:
            if target.embedder and target.embedder.image_embedder is None:
                name = target.kb.display_name
                message = f"Image queries were skipped in {name}: its embedding model accepts text only."
                self.search_run.warn(ServiceWarning(WarningCode.IMAGE_QUERIES_SKIPPED, message))


def get_top_weight(parts: Sequence[SearchPart], hits: Sequence[Hit]) -> float:
    """Return the weight of the best hit's knowledge base, for the merge with HTTP sources."""
    weights = {target.kb.index.id.bytes: target.weight for part in parts for target in part.targets}
    return weights.get(hits[0].key[:16], 1.0) if hits else 1.0


def merge_parts(answered: Sequence[tuple[SearchPart, Sequence[Hit]]]) -> list[Hit]:
    """Merge the hits of several parts into one list (pure).

    The scores of two strategies, or for two queries, are not comparable. So the best hit of each part gets a weight as
    score, and the other hits of the part get proportional scores. The weight falls with the distance of the part's best
    similarity from the best similarity of all parts with the same embedding model.

    Args:
        answered: Each part with its hits, best first.

    Returns:
        All hits, best first, ties by document and chunk index.
    """
    with_hits = [(part, hits) for part, hits in answered if hits]
    if len(with_hits) < 2:
        return [hit for _, hits in with_hits for hit in hits]
    best_by_part = [_find_best_similarities(part, hits) for part, hits in with_hits]
    best: dict[Hashable, float] = {}
    for similarities in best_by_part:
        for model, (similarity, _) in similarities.items():
            best[model] = max(similarity, best.get(model, similarity))
    sources = []
    for (part, hits), similarities in zip(with_hits, best_by_part, strict=True):
        distances = [(best[model] - similarity) / span for model, (similarity, span) in similarities.items()]
        weight = max(MIN_PART_WEIGHT, 1 - min(distances, default=0.0))
        sources.append(SourceHits(weight * get_top_weight([part], hits), hits))
    return sorted(merge_sources(sources), key=get_sort_key)


def _find_best_similarities(part: SearchPart, hits: Sequence[Hit]) -> dict[Hashable, tuple[float, float]]:
    """Return the best similarity of a part and the span of cosines, for each of its embedding models."""
    targets = {target.kb.index.id.bytes: target for target in part.targets}
    best: dict[Hashable, tuple[float, float]] = {}
    for hit in hits:
        if hit.similarity is not None:
            target = targets[hit.key[:16]]
            span = target.search_defaults.cosine_span or DEFAULT_COSINE_SPAN
            similarity, _ = best.get(target.model, (hit.similarity, span))
            best[target.model] = max(similarity, hit.similarity), span
    return best

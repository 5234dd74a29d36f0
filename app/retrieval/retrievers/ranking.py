"""Results of the retrievers by query, and merging of the ranked lists of several queries. All functions are pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.fusion.score_fusion import place_below
from app.retrieval.hit_order import round_score
from app.retrieval.repository import Floats, RetrievalRepository, RetrieverHits, RetrieverQuery
from app.retrieval.types import ChunkKey, Combination, RetrieverName, RetrieverRank, Scores

RankedKeys = list[tuple[ChunkKey, float]]
"""Pairs of a chunk key and a score, best first."""

NO_THRESHOLDS: Mapping[bytes, float] = MappingProxyType({})


@dataclass(slots=True)
class RetrieverResults:
    """Ranked lists of the dense and the lexical retriever, over all searched knowledge bases.

    Attributes:
        dense: For each embedding model, a ranked list of cosines for each query. Cosines of two models are not
            comparable.
        lexical: A ranked list of BM25 scores for each query.
        similarity: Highest known cosine of each chunk with any of the queries. A chunk that was found for a query
            without a vector has no similarity.
        compared_queries: For each chunk a bit mask of the queries whose cosine is known, if there are several queries.
        dense_weights: Default weight of the dense retriever for each search index, by the 16 bytes of its id.
        cosines: For each query the known cosines of the chunks that any retriever found.
        model_numbers: Number of the embedding model of each search index, by the 16 bytes of its id.
        cosine_spans: Difference of cosines that counts fully in a fusion, for each embedding model; None if unknown.
    """

    dense: list[list[RankedKeys]]
    lexical: list[RankedKeys]
    similarity: dict[ChunkKey, float] = field(default_factory=dict)
    compared_queries: dict[ChunkKey, int] = field(default_factory=dict)
    dense_weights: Mapping[bytes, float] = field(default_factory=dict)
    cosines: list[dict[ChunkKey, float]] = field(default_factory=list)
    model_numbers: Mapping[bytes, int] = field(default_factory=dict)
    cosine_spans: Sequence[float | None] = ()

    def collect_cosines(self, query: int) -> list[dict[ChunkKey, float]]:
        """Return the known cosines of all found chunks with a query, for each embedding model."""
        cosines = [dict(lists[query]) for lists in self.dense]
        for key, cosine in (self.cosines[query] if self.cosines else {}).items():
            cosines[self.model_numbers.get(key[:16], 0)][key] = cosine
        return cosines

    def get_span(self, model: int) -> float | None:
        """Return the span of the cosines of an embedding model; None if it is unknown."""
        return self.cosine_spans[model] if self.cosine_spans else None

    def list_keys(self) -> list[ChunkKey]:
        """Return the keys of all found chunks."""
        every_list = [*(item for lists in self.dense for item in lists), *self.lexical]
        return list(dict.fromkeys(key for ranked in every_list for key, _ in ranked))

    def collect_ranks(self) -> dict[ChunkKey, list[RetrieverRank]]:
        """Return the ranks of each chunk in the ranked lists."""
        retrievers: list[tuple[RetrieverName, list[RankedKeys]]] = [
            *(("dense", lists) for lists in self.dense),
            ("lexical", self.lexical),
        ]
        ranks: dict[ChunkKey, list[RetrieverRank]] = {}
        for query in range(len(self.lexical)):
            for retriever, lists in retrievers:
                for rank, (key, score) in enumerate(lists[query], start=1):
                    ranks.setdefault(key, []).append(RetrieverRank(query, retriever, rank, score))
        return ranks


class ModelQueryVectors(NamedTuple):
    """Vectors of all queries in one embedding model.

    Attributes:
        indexes: Ids of the search indexes of the model, as 16 bytes: the first half of a chunk key.
        vectors: Vectors of the queries.
        queries: Number of each vector's query, from 0.
    """

    indexes: frozenset[bytes]
    vectors: Sequence[Floats]
    queries: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranked list of a strategy, with the results of the retrievers.

    Attributes:
        results: Results of the retrievers.
        ranked_keys: Ranked list of the strategy.
        is_fused: Whether the strategy fused both retrievers.
        vector: Vector of the query, to look up cosines that the retrievers did not compute; None if all are known.
        model_query_vectors: Vectors of several queries, to compare hits with queries whose retrievers did not find
            them.
    """

    results: RetrieverResults
    ranked_keys: RankedKeys
    is_fused: bool
    vector: Floats | None = None
    model_query_vectors: Sequence[ModelQueryVectors] = ()

    def without_extra_lookups(self) -> Self:
        """Return a copy that looks up no further cosines, because the dense retriever may have failed."""
        return replace(self, vector=None, model_query_vectors=())

    def extend(self, deeper: Self) -> Self:
        """Return the ranking with further chunks of another one behind all others, whatever their scores are.

        The first chunks of a search then do not depend on the number of rows that were read.

        Args:
            deeper: Ranking of more rows, with the results of both.
        """
        own_keys = {key for key, _ in self.ranked_keys}
        tail = [(key, score) for key, score in deeper.ranked_keys if key not in own_keys]
        if self.ranked_keys and tail:
            tail = place_below(tail, self.ranked_keys[-1][1])
        return replace(deeper, ranked_keys=[*self.ranked_keys, *tail])

    def get_scores(self, hits: Sequence[tuple[ChunkKey, float]]) -> list[Scores]:
        """Return the retriever scores of some hits. Each call processes all results, so call it once for each batch."""
        dense = {key: score for lists in self.results.dense for key, score in merge_by_best_score(lists)}
        lexical = dict(merge_by_best_score(self.results.lexical))
        return [Scores(dense.get(key), lexical.get(key), score if self.is_fused else None) for key, score in hits]


class RankingRefiner(Protocol):
    """Second ranking of a strategy, which may read more from the database."""

    async def refine(
        self, repository: RetrievalRepository, calls: Sequence[RetrieverQuery], ranking: Ranking
    ) -> RankedKeys:
        """Return another ranked list for the ranking of the retrievers' lists."""

    def report_skipped(self, reason: str) -> None:
        """Report that the search ran without the second ranking."""


@dataclass(frozen=True, slots=True)
class ListRanker:
    """Ranking of the retrievers' lists by a strategy.

    Attributes:
        calls: Queries in search indexes. The calls of one query are adjacent, in the order of the queries.
        query_count: Number of queries.
        models: Number of each target's embedding model, from 0.
        rank: Function of the strategy.
        is_fused: Whether the strategy fuses both retrievers.
        is_scaled: Whether a score may depend on the other found rows, so that the first pass alone sets the scale.
        needs_cosines: Whether the strategy uses the cosine of every found chunk.
        vector: Vector of the query, to look up cosines that the retrievers did not compute; None if all are known.
        model_query_vectors: Vectors of several queries.
        dense_weights: Default weight of the dense retriever for each search index, by the 16 bytes of its id.
        cosine_spans: Span of the cosines of each embedding model; None if it is unknown.
        refiner: Second ranking of the first pass; None for none.
    """

    calls: Sequence[RetrieverQuery]
    query_count: int
    models: Sequence[int]
    rank: Callable[[RetrieverResults], RankedKeys]
    is_fused: bool
    is_scaled: bool = False
    needs_cosines: bool = False
    vector: Floats | None = None
    model_query_vectors: Sequence[ModelQueryVectors] = ()
    dense_weights: Mapping[bytes, float] = field(default_factory=dict)
    cosine_spans: Sequence[float | None] = ()
    refiner: RankingRefiner | None = None

    def group(self, lists: Sequence[RetrieverHits]) -> RetrieverResults:
        """Group the lists by query."""
        results = group_by_query(self.calls, lists, query_count=self.query_count, models=self.models)
        results.dense_weights, results.cosine_spans = self.dense_weights, self.cosine_spans
        return results

    def rank_results(self, results: RetrieverResults) -> Ranking:
        """Rank the grouped lists."""
        return Ranking(
            results,
            self.rank(results),
            is_fused=self.is_fused,
            vector=self.vector,
            model_query_vectors=self.model_query_vectors,
        )


def merge_passes(first: Sequence[RetrieverHits], deeper: Sequence[RetrieverHits]) -> list[RetrieverHits]:
    """Merge the lists of two passes; a row that both have counts once.

    Args:
        first: Lists of the first pass.
        deeper: Lists of the second pass, which has read more rows.

    Returns:
        One list for each call and retriever.
    """
    merged = {(hits.call_position, hits.retriever): hits for hits in first}
    for hits in deeper:
        place = (hits.call_position, hits.retriever)
        former = merged.get(place)
        if former is None:
            merged[place] = hits
            continue
        former_ids = set(former.chunk_ids)
        is_new = [chunk not in former_ids for chunk in hits.chunk_ids]
        merged[place] = RetrieverHits(
            *place,
            [*former.chunk_ids, *compress(hits.chunk_ids, is_new)],
            [*former.scores, *compress(hits.scores, is_new)],
            [*former.similarities, *compress(hits.similarities, is_new)],
        )
    return list(merged.values())


def group_by_query(
    calls: Sequence[RetrieverQuery], lists: Sequence[RetrieverHits], *, query_count: int, models: Sequence[int] = ()
) -> RetrieverResults:
    """Group the results of the retrievers by query.

    Args:
        calls: Queries in search indexes. The calls of one query are adjacent, in the order of the queries.
        lists: Results of the retrievers for the calls.
        query_count: Number of queries.
        models: Number of each target's embedding model, from 0; empty if there is one model.

    Returns:
        The results by query, each list best first.
    """
    target_count = len(calls) // query_count
    models = models or [0] * target_count
    results = RetrieverResults(
        dense=[[[] for _ in range(query_count)] for _ in range(max(models) + 1)],
        lexical=[[] for _ in range(query_count)],
        cosines=[{} for _ in range(query_count)],
        model_numbers={call.index_id.bytes: model for call, model in zip(calls[:target_count], models, strict=True)},
    )
    unknown: set[ChunkKey] = set()
    for hits in lists:
        call = calls[hits.call_position]
        index = call.index_id.bytes
        keys = [index + chunk.bytes for chunk in hits.chunk_ids]
        query, target = divmod(hits.call_position, target_count)
        ranked_lists = results.dense[models[target]] if hits.retriever == "dense" else results.lexical
        ranked_lists[query] += zip(keys, hits.scores, strict=True)
        similarities = {
            key: similarity for key, similarity in zip(keys, hits.similarities, strict=True) if similarity is not None
        }
        results.cosines[query].update(similarities)
        if query_count > 1:
            for key in similarities:
                results.compared_queries[key] = results.compared_queries.get(key, 0) | 1 << query
            if call.vector is None:
                unknown |= set(keys) - similarities.keys()
        for key in similarities.keys() & results.similarity.keys():
            similarities[key] = max(similarities[key], results.similarity[key])
        results.similarity.update(similarities)
    for key in unknown & results.similarity.keys():
        del results.similarity[key]
    for ranked in (*results.dense, results.lexical):
        ranked[:] = map(sort_best_first, ranked)
    return results


def may_have_more(
    calls: Sequence[RetrieverQuery],
    lists: Sequence[RetrieverHits],
    *,
    size: int,
    thresholds: Mapping[bytes, float] = NO_THRESHOLDS,
) -> bool:
    """Return whether a retriever may have more rows that reach the threshold, because it returned ``size`` rows.

    Args:
        calls: Queries in search indexes.
        lists: Results of the retrievers for the calls.
        size: Maximum number of rows of one list.
        thresholds: Score thresholds by the 16 bytes of the search index's id; an index without a limit is left out.

    Returns:
        True if there may be more rows.
    """
    for hits in lists:
        call = calls[hits.call_position]
        if len(hits.chunk_ids) < size:
            continue
        threshold = thresholds.get(call.index_id.bytes)
        if threshold is None or (call.only_similarity or call.vector is None):
            return True
        # The dense list is sorted by cosine: if its last row is below the threshold, no further row reaches it. Scores
        # are rounded as callers see them.
        if hits.retriever == "dense" and round(min(hits.scores), 6) >= threshold:
            return True
    return False


def merge_lists(ranked_lists: Sequence[RankedKeys], combine: Combination | None = None) -> RankedKeys:
    """Merge the ranked lists of several queries of one retriever.

    Args:
        ranked_lists: A ranked list for each query.
        combine: Whether the best score counts, which is the default, or the sum divided by the number of queries. A
            chunk that is not in a list gets 0 for it.

    Returns:
        Each chunk with its score, best first, ties by key.
    """
    if combine != "sum" or len(ranked_lists) == 1:
        return merge_by_best_score(ranked_lists)
    sums: dict[ChunkKey, float] = {}
    for ranked_list in ranked_lists:
        for key, score in ranked_list:
            sums[key] = sums.get(key, 0.0) + score / len(ranked_lists)
    return sort_best_first(sums.items())


def merge_by_best_score(ranked_lists: Sequence[RankedKeys]) -> RankedKeys:
    """Merge the ranked lists of several queries of one retriever.

    Args:
        ranked_lists: A ranked list for each query.

    Returns:
        Each chunk with its best score, best first, ties by key.
    """
    if len(ranked_lists) == 1:
        return ranked_lists[0]
    best: dict[ChunkKey, float] = {}
    for ranked_list in ranked_lists:
        for key, score in ranked_list:
            best[key] = max(score, best.get(key, score))
    return sort_best_first(best.items())


def split_with_ties(ranked: RankedKeys, size: int) -> tuple[RankedKeys, RankedKeys]:
    """Split a ranked list after ``size`` entries, or after the last entry with the same rounded score."""
    end = min(size, len(ranked))
    while end < len(ranked) and round_score(ranked[end][1]) == round_score(ranked[end - 1][1]):
        end += 1
    return ranked[:end], ranked[end:]

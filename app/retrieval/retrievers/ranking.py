"""Results of the retrievers by query, and merging of the ranked lists of several queries. All functions are pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.repository import Floats, RetrieverHits, RetrieverQuery
from app.retrieval.types import ChunkKey, RetrieverName, RetrieverRank, Scores, round_score

RankedKeys = list[tuple[ChunkKey, float]]
"""Pairs of a chunk key and a score, best first."""


@dataclass(slots=True)
class RetrieverResults:
    """Ranked lists of the dense and the lexical retriever, over all searched knowledge bases.

    Attributes:
        dense: For each embedding model, a ranked list of cosines for each query. Cosines of two models are not
            comparable.
        lexical: A ranked list of BM25 scores for each query.
        similarity: Highest known cosine of each chunk with any of the queries. A chunk that was found for a query
            without a vector has none.
        compared_queries: For each chunk a bit mask of the queries whose cosine is known, if there are several queries.
    """

    dense: list[list[RankedKeys]]
    lexical: list[RankedKeys]
    similarity: dict[ChunkKey, float] = field(default_factory=dict)
    compared_queries: dict[ChunkKey, int] = field(default_factory=dict)

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
    """The vectors of all queries in the search indexes of one model, whose keys begin with ``indexes``."""

    indexes: frozenset[bytes]
    vectors: Sequence[Floats]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The list that a strategy made of the lanes'; ``is_fused`` where it put both lanes together.

    ``vector`` is the query's where the lanes were not asked for all cosines: what a hit lacks is still to be had. So
    are, of several queries, those of a hit that the lanes of another query have found: ``model_query_vectors``.
    """

    results: RetrieverResults
    ranked_keys: RankedKeys
    is_fused: bool
    vector: Floats | None = None
    model_query_vectors: Sequence[ModelQueryVectors] = ()

    def without_extra_lookups(self) -> Self:
        """The same, where nothing is asked for that the lanes have not told: the dense one may be what failed."""
        return replace(self, vector=None, model_query_vectors=())

    def get_scores(self, hits: Sequence[tuple[ChunkKey, float]]) -> list[Scores]:
        """What the lanes gave those of the list; only asked for the few that are returned."""
        dense = {key: score for lists in self.results.dense for key, score in merge_by_best_score(lists)}
        lexical = dict(merge_by_best_score(self.results.lexical))
        return [Scores(dense.get(key), lexical.get(key), score if self.is_fused else None) for key, score in hits]


def group_by_query(
    calls: Sequence[RetrieverQuery], lists: Sequence[RetrieverHits], *, query_count: int, models: Sequence[int] = ()
) -> RetrieverResults:
    """Put the lists to their queries; in ``calls`` those of one query stand together, and queries in their order.

    ``models`` number the targets' models from 0; without them it is one.
    """
    target_count = len(calls) // query_count
    models = models or [0] * target_count
    results = RetrieverResults(
        dense=[[[] for _ in range(query_count)] for _ in range(max(models) + 1)],
        lexical=[[] for _ in range(query_count)],
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
    calls: Sequence[RetrieverQuery], lists: Sequence[RetrieverHits], *, size: int, threshold: float | None = None
) -> bool:
    """Whether a lane that gave all of ``size`` rows may have more that reach the threshold."""
    for hits in lists:
        call = calls[hits.call_position]
        if len(hits.chunk_ids) < size:
            continue
        if threshold is None or (call.only_similarity or call.vector is None):
            return True
        # All that reach it are among the nearest; scores as callers see them.
        if hits.retriever == "dense" and round(min(hits.scores), 6) >= threshold:
            return True
    return False


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
    """The first ``size`` with whatever ties with the last of them, as scores are shown, and the rest."""
    end = min(size, len(ranked))
    while end < len(ranked) and round_score(ranked[end][1]) == round_score(ranked[end - 1][1]):
        end += 1
    return ranked[:end], ranked[end:]

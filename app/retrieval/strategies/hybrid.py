"""Hybrid retrieval: fusion of the dense and the lexical retriever."""

from collections.abc import Callable, Collection, Iterable
from typing import Literal

from pydantic import BaseModel, Field

from app.inference.embedding.search_defaults import UNKNOWN_MODEL
from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf, sort_best_first
from app.retrieval.fusion.score_fusion import scale_cosines, scale_range
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults, merge_by_best_score
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import ChunkKey, Combination, Hit

_WeightedLists = list[RankedList[ChunkKey]]


class HybridOptions(BaseModel, extra="forbid"):
    """Method, weights and constant of the fusion of the dense and the lexical retriever."""

    fusion: Literal["weighted", "rrf"] = Field(
        "weighted", description="A weighted sum of scaled scores, or reciprocal ranks."
    )
    dense_weight: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Weight of the dense retriever; the lexical one has the rest. Null for the default of the "
        "embedding model of each knowledge base, which `embedding_models` of `GET /v1/capabilities` has.",
    )
    rrf_k: int = Field(60, ge=1, le=1000, description="The constant of reciprocal rank fusion.")
    candidate_multiplier: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Each retriever returns at least `top_k` times this number of chunks to the fusion, at most 1,000. "
        "Null for the number of the service, which is also the minimum.",
    )


async def run(context: SearchContext, options: HybridOptions) -> list[Hit]:
    """Search with both retrievers and fuse their ranked lists. Several queries are summed by default.

    Args:
        context: The search.
        options: Options of the fusion.

    Returns:
        The best hits, at most ``context.retriever.top_k``, best first.
    """
    if options.candidate_multiplier is not None:
        context = context.with_candidates(options.candidate_multiplier)
    return await context.find(
        lambda results: fuse(results, options, context.combine), cosines=options.fusion == "weighted"
    )


def fuse(results: RetrieverResults, options: HybridOptions, combine: Combination | None = None) -> RankedKeys:
    """Fuse the results of the retrievers to one ranked list (pure).

    Without a requested weight, each chunk gets the default weight of its knowledge base's model.

    Args:
        results: Results of the retrievers.
        options: Method and weights of the fusion.
        combine: Whether the sum over all queries counts, which is the default, or the best score for one query.

    Returns:
        All chunks with their fused scores, best first.
    """
    get_weight = _create_weight_function(results, options.dense_weight)
    if options.fusion == "weighted":
        return fuse_scores(results, get_weight, combine)

    def rank(lists: Iterable[RankedKeys], share: float, get_list_weight: Callable[[ChunkKey], float]) -> _WeightedLists:
        return [RankedList(share, ranked, get_list_weight) for ranked in lists]

    queries = len(results.lexical)
    if combine != "best":
        weighted_lists = rank((ranked for lists in results.dense for ranked in lists), 1 / queries, get_weight)
        weighted_lists += rank(results.lexical, 1 / queries, lambda key: 1 - get_weight(key))
        return fuse_rrf(weighted_lists, k=options.rrf_k)
    return merge_by_best_score(
        [
            fuse_rrf(
                rank((lists[query] for lists in results.dense), 1, get_weight)
                + rank([results.lexical[query]], 1, lambda key: 1 - get_weight(key)),
                k=options.rrf_k,
            )
            for query in range(queries)
        ]
    )


def fuse_scores(
    results: RetrieverResults, get_dense_weight: Callable[[ChunkKey], float], combine: Combination | None = None
) -> RankedKeys:
    """Add the scaled cosine and the scaled BM25 score of each chunk, over all queries (pure).

    Every found chunk counts with its cosine, whichever retriever found it. A chunk without a known cosine gets 0 for
    it. A chunk that the lexical retriever did not find gets 0 for its BM25 score.

    Args:
        results: Results of the retrievers.
        get_dense_weight: Function that returns the weight of a chunk's cosine, from 0 to 1.
        combine: Whether the sum over all queries counts, which is the default, or the best score for one query.

    Returns:
        All chunks with their fused scores, from 0 to 1, best first, ties by key.
    """
    queries, is_best = len(results.lexical), combine == "best"
    share = 1 if is_best else 1 / queries
    weights = {key: get_dense_weight(key) for key in results.list_keys()}
    sums = [dict.fromkeys(weights, 0.0) for _ in range(queries if is_best else 1)]
    for query, ranked_list in enumerate(results.lexical):
        fused = sums[query if is_best else 0]
        for key, score in scale_range(dict(reversed(ranked_list))).items():
            fused[key] += (1 - weights[key]) * share * score
        for model, cosines in enumerate(results.collect_cosines(query)):
            for key, score in scale_cosines(cosines, results.get_span(model)).items():
                fused[key] += weights[key] * share * score
    return sort_best_first((key, max(scores[key] for scores in sums)) for key in weights)


def find_common_weight(requested: float | None, defaults: Collection[float]) -> float | None:
    """Return the dense weight that all search indexes of a search have.

    Args:
        requested: Weight of the request; None for the defaults.
        defaults: Default weight of each search index.

    Returns:
        The weight; None if the defaults differ.
    """
    weights = set(defaults) or {UNKNOWN_MODEL.dense_weight}
    return requested if requested is not None else weights.pop() if len(weights) == 1 else None


def _create_weight_function(results: RetrieverResults, requested: float | None) -> Callable[[ChunkKey], float]:
    """Return a function that returns the dense weight of a chunk: the requested one, else that of its search index."""
    weights = results.dense_weights
    common = find_common_weight(requested, weights.values())
    return (lambda key: weights[key[:16]]) if common is None else (lambda _: common)


STRATEGY = Strategy("hybrid", "Dense and lexical, fused.", HybridOptions, run)

"""Hybrid retrieval: fusion of the dense and the lexical retriever."""

from collections.abc import Collection
from typing import Literal

from pydantic import BaseModel, Field

from app.inference.embedding.search_defaults import UNKNOWN_MODEL
from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf, fuse_weighted
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import ChunkKey, Hit


class HybridOptions(BaseModel, extra="forbid"):
    """Method, weights and constant of the fusion of the dense and the lexical retriever."""

    fusion: Literal["weighted", "rrf"] = Field(
        "weighted", description="A sum of min-max scaled scores, or reciprocal ranks."
    )
    dense_weight: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Weight of the dense retriever; the lexical one has the rest. Null for the default of the "
        "embedding model of each knowledge base, which `embedding_models` of `GET /v1/capabilities` has.",
    )
    rrf_k: int = Field(60, ge=1, le=1000, description="The constant of reciprocal rank fusion.")


async def run(context: SearchContext, options: HybridOptions) -> list[Hit]:
    """Search with both retrievers and fuse their ranked lists. All queries have the same weight.

    Args:
        context: The search.
        options: Options of the fusion.

    Returns:
        The best hits, at most ``context.retriever.top_k``, best first.
    """
    return await context.find(lambda results: fuse(results, options), cosines=False)


def fuse(results: RetrieverResults, options: HybridOptions) -> RankedKeys:
    """Fuse the results of the retrievers to one ranked list (pure).

    A chunk is in the dense lists of one embedding model only, so each model's lists get the full dense weight. Without
    a requested weight, each chunk gets the default weight of its knowledge base's model.

    Args:
        results: Results of the retrievers.
        options: Method and weights of the fusion.

    Returns:
        All chunks with their fused scores, best first.
    """
    weight = find_common_weight(options.dense_weight, results.dense_weights.values())
    weighted_lists = _create_lists(results) if weight is None else _create_equal_lists(results, weight)
    return fuse_weighted(weighted_lists) if options.fusion == "weighted" else fuse_rrf(weighted_lists, k=options.rrf_k)


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


def _create_equal_lists(results: RetrieverResults, dense_weight: float) -> list[RankedList[ChunkKey]]:
    share = 1 / len(results.lexical)
    dense = [RankedList(dense_weight * share, ranked_list) for lists in results.dense for ranked_list in lists]
    return dense + [RankedList((1 - dense_weight) * share, ranked_list) for ranked_list in results.lexical]


def _create_lists(results: RetrieverResults) -> list[RankedList[ChunkKey]]:
    """Return the ranked lists; the score of each chunk is weighted by the default weight of its search index."""
    share, weights = 1 / len(results.lexical), results.dense_weights

    def get_dense_weight(key: ChunkKey) -> float:
        return weights[key[:16]]

    def get_lexical_weight(key: ChunkKey) -> float:
        return 1 - weights[key[:16]]

    dense = [RankedList(share, ranked_list, get_dense_weight) for lists in results.dense for ranked_list in lists]
    return dense + [RankedList(share, ranked_list, get_lexical_weight) for ranked_list in results.lexical]


STRATEGY = Strategy("hybrid", "Dense and lexical, fused.", HybridOptions, run)

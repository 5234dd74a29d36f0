"""Hybrid retrieval: fusion of the dense and the lexical retriever."""

from typing import Literal

from pydantic import BaseModel, Field

from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf, fuse_weighted
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults
from app.retrieval.strategies.strategy import SearchContext, Strategy
from app.retrieval.types import Hit


class HybridOptions(BaseModel, extra="forbid"):
    """Method, weights and constant of the fusion of the dense and the lexical retriever."""

    fusion: Literal["weighted", "rrf"] = Field(
        "weighted", description="A sum of min-max scaled scores, or reciprocal ranks."
    )
    dense_weight: float = Field(
        0.45, ge=0, le=1, description="Weight of the dense retriever; the lexical one has the rest."
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

    A chunk is in the dense lists of one embedding model only, so each model's lists get the full dense weight.

    Args:
        results: Results of the retrievers.
        options: Method and weights of the fusion.

    Returns:
        All chunks with their fused scores, best first.
    """
    share = 1 / len(results.lexical)
    weighted_lists = [
        RankedList(options.dense_weight * share, ranked_list) for lists in results.dense for ranked_list in lists
    ]
    weighted_lists += [RankedList((1 - options.dense_weight) * share, ranked_list) for ranked_list in results.lexical]
    return fuse_weighted(weighted_lists) if options.fusion == "weighted" else fuse_rrf(weighted_lists, k=options.rrf_k)


STRATEGY = Strategy("hybrid", "Dense and lexical, fused.", HybridOptions, run)

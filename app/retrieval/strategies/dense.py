"""Dense retrieval: the chunks whose vectors have the highest cosine with a query."""

from app.retrieval.fusion.rank_fusion import RankedList, fuse_weighted
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults, merge_by_best_score
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
    """Search with the dense retriever.

    Args:
        context: The search.

    Returns:
        The best hits, best first. The score is the cosine; with several embedding models, it is scaled within the
        results of each model.
    """
    return await context.find(rank_by_cosine, lexical=False)


def rank_by_cosine(results: RetrieverResults) -> RankedKeys:
    """Merge the cosines of all queries to one ranked list (pure)."""
    ranked_lists = [ranked_list for lists in results.dense if (ranked_list := merge_by_best_score(lists))]
    return (
        ranked_lists[0]
        if len(ranked_lists) == 1
        else fuse_weighted([RankedList(1, ranked_list) for ranked_list in ranked_lists])
    )


STRATEGY = Strategy("dense", "Dense: nearest embeddings by cosine.", NoStrategyOptions, run)

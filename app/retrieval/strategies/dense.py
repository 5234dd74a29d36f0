"""Dense retrieval: the chunks whose vectors have the highest cosine with a query."""

from app.retrieval.fusion.rank_fusion import sort_best_first
from app.retrieval.fusion.score_fusion import scale_cosines
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults, merge_lists
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Combination, Hit


async def run(context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
    """Search with the dense retriever.

    Args:
        context: The search.

    Returns:
        The best hits, best first. The score is the cosine; with several embedding models, it is scaled within the
        results of each model.
    """
    return await context.find(lambda results: rank_by_cosine(results, context.combine), lexical=False)


def rank_by_cosine(results: RetrieverResults, combine: Combination | None = None) -> RankedKeys:
    """Merge the cosines of all queries to one ranked list (pure)."""
    ranked_lists = [merge_lists(lists, combine) for lists in results.dense]
    ranked_models = [(model, ranked) for model, ranked in enumerate(ranked_lists) if ranked]
    if len(ranked_models) == 1:
        return ranked_models[0][1]
    scaled = [scale_cosines(dict(ranked), results.get_span(model)) for model, ranked in ranked_models]
    return sort_best_first(item for scores in scaled for item in scores.items())


STRATEGY = Strategy("dense", "Dense: nearest embeddings by cosine.", NoStrategyOptions, run)

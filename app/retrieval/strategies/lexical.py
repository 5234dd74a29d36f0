"""Lexical retrieval: BM25."""

from app.retrieval.retrievers.ranking import merge_lists
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
    """Search with the lexical retriever.

    Args:
        context: The search.

    Returns:
        The best hits, best first. The score is BM25. Queries are not embedded, so hits have no similarity.
    """
    return await context.find(lambda results: merge_lists(results.lexical, context.combine), dense=False)


STRATEGY = Strategy("lexical", "BM25 over stemmed words and whole identifiers.", NoStrategyOptions, run)

"""Lexical retrieval: BM25."""

from dataclasses import replace

from app.retrieval.retrievers.ranking import merge_lists
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
    """Search with the lexical retriever. Several queries are summed by default.

    Args:
        context: The search.

    Returns:
        The best hits, best first. The score is BM25, of several queries their mean. Queries are not
        embedded, so hits have no similarity.
    """
    summing = replace(context, combine=context.combine or "sum")
    return await summing.find(lambda results: merge_lists(results.lexical, summing.combine), dense=False)


STRATEGY = Strategy("lexical", "BM25 over stemmed words and whole identifiers.", NoStrategyOptions, run)

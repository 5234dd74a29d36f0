"""Lexical retrieval: BM25."""

from app.retrieval.retrievers.ranking import merge_by_best_score
from app.retrieval.strategies.strategy import NoStrategyOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoStrategyOptions) -> list[Hit]:
    """``score`` is BM25; the query is not embedded, so there is no similarity."""
    return await context.find(lambda results: merge_by_best_score(results.lexical), dense=False)


STRATEGY = Strategy("lexical", "BM25 over stemmed words and whole identifiers.", NoStrategyOptions, run)

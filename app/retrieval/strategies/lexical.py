"""Lexical retrieval: BM25."""

from app.retrieval.lanes import best_of
from app.retrieval.strategies.context import NoOptions, SearchContext, Strategy
from app.retrieval.types import Hit


async def run(context: SearchContext, _options: NoOptions) -> list[Hit]:
    """``score`` is BM25; the query is not embedded, so there is no similarity."""
    return await context.find(lambda found: best_of(found.lexical), dense=False)


STRATEGY = Strategy("lexical", "BM25 over stemmed words and whole identifiers.", NoOptions, run)

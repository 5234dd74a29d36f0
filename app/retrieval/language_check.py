"""Check that the embedding models of the searched knowledge bases read the language of the queries."""

from collections.abc import Sequence

from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.model_language import build_query_warning
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.types import Query

MAX_QUERIES = 8
"""Maximum number of queries of a search that are checked, at a fraction of a millisecond each."""


def warn_unread_languages(
    queries: Sequence[Query], targets: Sequence[SearchTarget], embedders: Embedders, search_run: SearchRun
) -> None:
    """Add a notice for each knowledge base whose embedding model does not read a query.

    Queries with a provided vector and queries that transformers added are not checked.

    Args:
        queries: Queries of the search.
        targets: Knowledge bases to search.
        embedders: All embedders, to say whether the multilingual model is available.
        search_run: Collector of the notices.
    """
    texts = [query.text for query in queries if query.text and query.vector is None and not query.is_extra]
    for target in targets:
        warnings = (build_query_warning(text, target.kb, embedders) for text in texts[:MAX_QUERIES])
        warning = next(filter(None, warnings), None)
        if warning is not None:
            search_run.add_notice(warning)

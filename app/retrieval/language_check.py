"""Check that the embedding models of the searched knowledge bases read the language of the queries."""

from collections.abc import Sequence

from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.model_language import build_query_warning, is_english_only
from app.lexical.text_language import TextLanguage, identify_language
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.types import Query

MAX_QUERIES = 8
"""Maximum number of queries of a search that are checked, at a millisecond or less each."""


def warn_unread_languages(
    queries: Sequence[Query], targets: Sequence[SearchTarget], embedders: Embedders, search_run: SearchRun
) -> None:
    """Add a notice for each knowledge base whose embedding model does not read a query.

    The language of a query is found once for all knowledge bases, and without waiting for the detector of languages.
    Queries with a provided vector and queries that transformers added are not checked.

    Args:
        queries: Queries of the search.
        targets: Knowledge bases to search.
        embedders: All embedders, to say whether the multilingual model is available.
        search_run: Collector of the notices.
    """
    kbs = [target.kb for target in targets if is_english_only(target.kb.index.identity)]
    language = _find_other_language(queries) if kbs else None
    if language is not None:
        for kb in kbs:
            search_run.add_notice(build_query_warning(language, kb, embedders))


def _find_other_language(queries: Sequence[Query]) -> TextLanguage | None:
    """Return the language of the first query that is certainly not English."""
    texts = [query.text for query in queries if query.text and query.vector is None and not query.is_extra]
    languages = (identify_language(text, can_wait=False) for text in texts[:MAX_QUERIES])
    return next((language for language in languages if language is not None and not language.is_english), None)

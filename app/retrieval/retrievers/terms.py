"""The terms that the lexical lane is asked for: each query's once in each language, and all in time."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple
from uuid import UUID

from app.lexical.languages import tokenize_query
from app.lexical.weights import compute_query_keys, compute_query_term_ids, compute_salt
from app.retrieval.search_run import SearchRun
from app.warnings import ServiceWarning, WarningCode

# Of one search, in all knowledge bases together: to send them takes a tenth of a second, in which nobody else is
# answered, and to look for them half of one. The longest query, without a word twice, is asked whole in six.
MAX_TERMS = 200_000
# A character takes a microsecond to analyse: of more than so many everybody else would have to wait.
MAX_INLINE_CHARACTERS = 5_000
QUERY_TERMS_TRUNCATED = ServiceWarning(
    WarningCode.QUERY_TERMS_TRUNCATED,
    f"Together the queries ask for more than {MAX_TERMS:,} words: only the last words of each were searched for.",
)


class IndexLanguages(NamedTuple):
    """A search index, and the languages of its words."""

    languages: Sequence[str]
    index_id: UUID


class Terms(NamedTuple):
    """A query's terms in one search index, as ids and keys in one order."""

    ids: Sequence[int]
    keys: Sequence[int]


NO_TERMS = Terms((), ())


async def analyze_queries(
    texts: Sequence[str], indexes: Sequence[IndexLanguages], search_run: SearchRun
) -> list[Terms]:
    """Those of each text in each place, text by text."""
    language_sets = {tuple(index.languages) for index in indexes}
    if sum(map(len, texts)) * sum(map(len, language_sets)) <= MAX_INLINE_CHARACTERS:
        return _analyze_queries(texts, indexes, search_run)
    return await asyncio.to_thread(_analyze_queries, texts, indexes, search_run)


def _analyze_queries(texts: Sequence[str], indexes: Sequence[IndexLanguages], search_run: SearchRun) -> list[Terms]:
    language_sets = {tuple(index.languages) for index in indexes}
    ids = {
        (text, language_set): compute_query_term_ids(tokenize_query(language_set, text))
        for text, language_set in product(dict.fromkeys(texts), language_sets)
    }
    requested = [(ids[text, tuple(index.languages)], index) for text, index in product(texts, indexes)]
    if sum(len(term_ids) for term_ids, _ in requested) > MAX_TERMS:
        search_run.warn(QUERY_TERMS_TRUNCATED)
        max_query_terms = max(1, MAX_TERMS // len(requested))
        requested = [(term_ids[-max_query_terms:], index) for term_ids, index in requested]  # what is asked stands last
    return [
        Terms(term_ids, compute_query_keys(term_ids, compute_salt(index.index_id))) for term_ids, index in requested
    ]

"""Terms of the queries for the lexical retriever, by search index and language."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple
from uuid import UUID

from app.lexical.analyzer import CURRENT_VERSION
from app.lexical.languages import tokenize_query
from app.lexical.weights import compute_query_keys, compute_query_term_ids, compute_salt
from app.retrieval.search_run import SearchRun
from app.warnings import ServiceWarning, WarningCode

# Maximum number of terms of one search in all knowledge bases. Sending them blocks the process for 0.1 s, and the
# search takes 0.5 s. The longest query with distinct words fits for six knowledge bases.
MAX_TERMS = 200_000
# Analysis takes about 1 us for each character. Longer texts are analyzed in a thread, so that other requests do not
# wait.
MAX_INLINE_CHARACTERS = 5_000
QUERY_TERMS_TRUNCATED = ServiceWarning(
    WarningCode.QUERY_TERMS_TRUNCATED,
    f"The queries have more than {MAX_TERMS:,} terms together: only the last terms of each query were searched.",
)


class IndexLanguages(NamedTuple):
    """Search index with the languages of its documents and the version of its analyzer."""

    languages: Sequence[str]
    index_id: UUID
    version: int = CURRENT_VERSION

    @property
    def analyzers(self) -> tuple[tuple[str, ...], int]:
        """Languages and version, which determine the terms of a query."""
        return tuple(self.languages), self.version


class Terms(NamedTuple):
    """Terms of a query in one search index, as ids and keys in the same order."""

    ids: Sequence[int]
    keys: Sequence[int]


NO_TERMS = Terms((), ())


async def analyze_queries(
    texts: Sequence[str], indexes: Sequence[IndexLanguages], search_run: SearchRun
) -> list[Terms]:
    """Compute the terms of each text in each search index.

    Args:
        texts: Texts of the queries.
        indexes: Search indexes with their languages.
        search_run: Collector of the warning if there are too many terms.

    Returns:
        The terms of the first text in all indexes, then the terms of the next text.
    """
    language_sets = {index.analyzers for index in indexes}
    if sum(map(len, texts)) * sum(len(languages) for languages, _ in language_sets) <= MAX_INLINE_CHARACTERS:
        return _analyze_queries(texts, indexes, search_run)
    return await asyncio.to_thread(_analyze_queries, texts, indexes, search_run)


def _analyze_queries(texts: Sequence[str], indexes: Sequence[IndexLanguages], search_run: SearchRun) -> list[Terms]:
    analyzers = {index.analyzers for index in indexes}
    ids = {
        (text, (languages, version)): compute_query_term_ids(tokenize_query(languages, text, version))
        for text, (languages, version) in product(dict.fromkeys(texts), analyzers)
    }
    requested = [(ids[text, index.analyzers], index) for text, index in product(texts, indexes)]
    if sum(len(term_ids) for term_ids, _ in requested) > MAX_TERMS:
        search_run.warn(QUERY_TERMS_TRUNCATED)
        max_query_terms = max(1, MAX_TERMS // len(requested))
        requested = [
            (term_ids[-max_query_terms:], index) for term_ids, index in requested
        ]  # a question is usually at the end
    return [
        Terms(term_ids, compute_query_keys(term_ids, compute_salt(index.index_id))) for term_ids, index in requested
    ]

"""The terms that the lexical lane is asked for: each query's once in each language, and all in time."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple
from uuid import UUID

from app.lexical.languages import query_tokens
from app.lexical.weights import query_keys, query_term_ids, salt
from app.retrieval.course import Course

# Of one search, in all knowledge bases together: to send them takes a tenth of a second, in which nobody else is
# answered, and to look for them half of one. The longest query, without a word twice, is asked whole in six.
MOST = 200_000
# A character takes a microsecond to analyse: of more than so many everybody else would have to wait.
AT_ONCE = 5_000
TOO_MANY = f"Together the queries ask for more than {MOST:,} words: only the last words of each were searched for."


class Place(NamedTuple):
    """A search index, and the languages of its words."""

    languages: Sequence[str]
    index_id: UUID


class Terms(NamedTuple):
    """A query's terms in one search index, as ids and keys in one order."""

    ids: Sequence[int]
    keys: Sequence[int]


NONE = Terms((), ())


async def terms_of(texts: Sequence[str], places: Sequence[Place], course: Course) -> list[Terms]:
    """Those of each text in each place, text by text."""
    spoken = {tuple(place.languages) for place in places}
    if sum(map(len, texts)) * sum(map(len, spoken)) <= AT_ONCE:
        return _terms(texts, places, course)
    return await asyncio.to_thread(_terms, texts, places, course)


def _terms(texts: Sequence[str], places: Sequence[Place], course: Course) -> list[Terms]:
    spoken = {tuple(place.languages) for place in places}
    ids = {(text, one): query_term_ids(query_tokens(one, text)) for text, one in product(dict.fromkeys(texts), spoken)}
    asked = [(ids[text, tuple(place.languages)], place) for text, place in product(texts, places)]
    if sum(len(found) for found, _ in asked) > MOST:
        course.warn(TOO_MANY)
        each = max(1, MOST // len(asked))
        asked = [(found[-each:], place) for found, place in asked]  # what is asked stands last
    return [Terms(found, query_keys(found, salt(place.index_id))) for found, place in asked]

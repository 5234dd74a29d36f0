"""The terms of a search's queries, with and without a limit."""

import asyncio
import random
from uuid import UUID

from app.lexical.languages import tokenize_query
from app.lexical.weights import compute_query_terms, compute_salt
from app.retrieval.retrievers.terms import MAX_TERMS, QUERY_TERMS_TRUNCATED, IndexLanguages, analyze_queries
from app.retrieval.search_run import SearchRun

PLACES = [
    IndexLanguages(["english"], UUID(int=1)),
    IndexLanguages(["german", "english"], UUID(int=2)),
    IndexLanguages(["english"], UUID(int=3)),
]


def chinese(length: int, seed: int = 1) -> str:
    """Return a text whose pairs of characters are nearly all different."""
    rng = random.Random(seed)
    return "".join(chr(rng.randrange(0x4E00, 0x9F00)) for _ in range(length))


def test_query_terms_are_computed_for_each_query_and_place() -> None:
    texts = ["the lantern above the door", "Wohnungen", "", chinese(30), chinese(3000), "the lantern above the door"]
    course = SearchRun.from_timeout(5)
    found = asyncio.run(analyze_queries(texts, PLACES, course))
    wanted = [
        compute_query_terms(tokenize_query(one.languages, text), compute_salt(one.index_id))
        for text in texts
        for one in PLACES
    ]
    assert [tuple(terms) for terms in found] == wanted
    assert course.warnings == []


def test_query_terms_too_many_terms_uses_last_terms_and_warns() -> None:
    course = SearchRun.from_timeout(5)
    texts = [chinese(32_000, seed) for seed in range(4)]
    found = asyncio.run(analyze_queries(texts, PLACES, course))
    assert MAX_TERMS * 0.99 < sum(len(terms.ids) for terms in found) <= MAX_TERMS
    assert course.warnings == [QUERY_TERMS_TRUNCATED]
    whole, keys = compute_query_terms(tokenize_query(["english"], texts[0]), compute_salt(PLACES[0].index_id))
    size = len(found[0].ids)
    assert (found[0].ids, found[0].keys) == (whole[-size:], keys[-size:])


async def test_query_terms_computation_yields_to_other_tasks() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    await analyze_queries([chinese(32_000)], PLACES, SearchRun.from_timeout(5))
    other.cancel()
    assert turns > 1

"""Ranking: the lists of the retrievers, assigned to their queries and merged into one list."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from app.filters import CompiledFilter
from app.retrieval.repository import RetrieverHits, RetrieverQuery
from app.retrieval.retrievers.ranking import Ranking, RetrieverResults, group_by_query
from app.retrieval.strategies import hybrid
from app.retrieval.strategies.dense import rank_by_cosine
from app.retrieval.types import RetrieverName, RetrieverRank, Scores

TENANT, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)
# Two queries in two search indexes.
CALLS = [
    RetrieverQuery(TENANT, index, 4, None, [], [], [], CompiledFilter()) for index in (FIRST, SECOND, FIRST, SECOND)
]


def listed(call: int, lane: RetrieverName, *rows: tuple[int, float, float | None]) -> RetrieverHits:
    return RetrieverHits(
        call, lane, [UUID(int=row[0]) for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    )


def key(index: UUID, chunk: int) -> bytes:
    return index.bytes + UUID(int=chunk).bytes


def collected(*lists: RetrieverHits) -> tuple[Sequence[object], Sequence[object], object]:
    found = group_by_query(CALLS, lists, query_count=2)
    (dense,) = found.dense
    return dense, found.lexical, found.similarity


def test_group_by_query_gives_one_ordered_list_per_retriever() -> None:
    dense, lexical, _ = collected(
        listed(1, "dense", (7, 0.5, 0.5)),
        listed(0, "dense", (9, 0.5, 0.5), (8, 0.5, 0.5), (5, 0.9, 0.9)),
        listed(2, "lexical", (6, 3.0, None)),
    )
    assert dense == [[(key(FIRST, 5), 0.9), (key(FIRST, 8), 0.5), (key(FIRST, 9), 0.5), (key(SECOND, 7), 0.5)], []]
    assert lexical == [[], [(key(FIRST, 6), 3.0)]]


def test_group_by_query_similarity_is_highest_cosine() -> None:
    _, _, similarity = collected(
        listed(0, "dense", (5, 0.2, 0.2), (6, -0.4, -0.4)),
        listed(2, "lexical", (5, 3.0, 0.7), (6, 2.0, -0.6), (4, 1.0, None)),
        listed(3, "lexical", (5, 1.0, 0.1)),
    )
    assert similarity == {key(FIRST, 5): 0.7, key(FIRST, 6): -0.4, key(SECOND, 5): 0.1}


def of_two_models() -> RetrieverResults:
    """Return results of two queries in two search indexes of two models; the second model's cosines are all small."""
    lists = (
        listed(0, "dense", (5, 0.9, 0.9), (6, 0.8, 0.8)),
        listed(1, "dense", (7, 0.03, 0.03), (8, 0.01, 0.01)),
        listed(2, "dense", (6, 0.7, 0.7)),
        listed(3, "dense", (8, 0.02, 0.02)),
        listed(1, "lexical", (8, 3.0, 0.01)),
    )
    return group_by_query(CALLS, lists, query_count=2, models=(0, 1))


def test_group_by_query_models_have_separate_dense_lists() -> None:
    found = of_two_models()
    assert found.dense == [
        [[(key(FIRST, 5), 0.9), (key(FIRST, 6), 0.8)], [(key(FIRST, 6), 0.7)]],
        [[(key(SECOND, 7), 0.03), (key(SECOND, 8), 0.01)], [(key(SECOND, 8), 0.02)]],
    ]
    assert found.lexical == [[(key(SECOND, 8), 3.0)], []]
    assert found.collect_ranks()[key(SECOND, 8)] == [
        RetrieverRank(0, "dense", 2, 0.01),
        RetrieverRank(0, "lexical", 1, 3.0),
        RetrieverRank(1, "dense", 1, 0.02),
    ]


def test_rank_by_cosine_scales_models_separately() -> None:
    assert rank_by_cosine(of_two_models()) == [
        (key(FIRST, 5), 1.0),
        (key(SECOND, 7), 1.0),
        (key(FIRST, 6), 0.0),
        (key(SECOND, 8), 0.0),
    ]
    fused = dict(hybrid.fuse(of_two_models(), hybrid.HybridOptions(dense_weight=0.5)))
    assert fused == {
        key(FIRST, 5): pytest.approx(0.25),  # the best of the first query, not found for the second
        key(SECOND, 7): pytest.approx(0.25),
        key(FIRST, 6): pytest.approx(0.25),  # the only one of the second query
        key(SECOND, 8): pytest.approx(0.25 + 0.25),
    }


def test_rank_by_cosine_of_one_model_returns_cosine() -> None:
    lists = [listed(1, "dense", (7, 0.03, 0.03), (8, 0.01, 0.01))]
    assert rank_by_cosine(group_by_query(CALLS, lists, query_count=2, models=(0, 1))) == [
        (key(SECOND, 7), 0.03),
        (key(SECOND, 8), 0.01),
    ]
    assert rank_by_cosine(group_by_query(CALLS, [], query_count=2, models=(0, 1))) == []


def test_retriever_scores_include_every_model() -> None:
    found = of_two_models()
    ranked = rank_by_cosine(found)
    told = dict(
        zip((place for place, _ in ranked), Ranking(found, ranked, is_fused=False).get_scores(ranked), strict=True)
    )
    assert told[key(FIRST, 6)] == Scores(0.8, None, None)
    assert told[key(SECOND, 8)] == Scores(0.02, 3.0, None)

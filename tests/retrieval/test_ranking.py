"""Ranking: the lists of the retrievers, assigned to their queries and merged into one list."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from uuid import UUID

import numpy as np
import pytest

from app.filters import CompiledFilter
from app.inference.embedding.search_defaults import UNKNOWN_MODEL
from app.retrieval.repository import RetrieverHits, RetrieverQuery
from app.retrieval.retrievers.ranking import Ranking, RetrieverResults, group_by_query, may_have_more
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


def test_fuse_weights_each_chunk_by_default_of_its_model() -> None:
    results = of_two_models()
    results.dense_weights = {FIRST.bytes: 0.4, SECOND.bytes: 0.8}
    assert dict(hybrid.fuse(results, hybrid.HybridOptions())) == {
        key(FIRST, 5): pytest.approx(0.4 / 2),
        key(SECOND, 7): pytest.approx(0.8 / 2),
        key(FIRST, 6): pytest.approx(0.4 / 2),
        key(SECOND, 8): pytest.approx(0.8 / 2 + 0.2 / 2),
    }
    ranked = dict(hybrid.fuse(results, hybrid.HybridOptions(fusion="rrf", rrf_k=1)))
    assert ranked[key(SECOND, 8)] == pytest.approx(0.8 / 2 / 3 + 0.8 / 2 / 2 + 0.2 / 2 / 2)
    assert ranked[key(FIRST, 6)] == pytest.approx(0.4 / 2 / 3 + 0.4 / 2 / 2)


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize("defaults", [{}, {FIRST.bytes: 0.4, SECOND.bytes: 0.8}])
def test_fuse_requested_weight_overrides_defaults(
    fusion: Literal["weighted", "rrf"], defaults: dict[bytes, float]
) -> None:
    results, plain = of_two_models(), of_two_models()
    results.dense_weights = defaults
    options = hybrid.HybridOptions(fusion=fusion, dense_weight=0.3)
    assert hybrid.fuse(results, options) == hybrid.fuse(plain, options)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.45, 1.0])
def test_fuse_equal_defaults_equal_the_requested_weight(weight: float) -> None:
    results = of_two_models()
    results.dense_weights = {FIRST.bytes: weight, SECOND.bytes: weight}
    requested = hybrid.fuse(of_two_models(), hybrid.HybridOptions(dense_weight=weight))
    assert hybrid.fuse(results, hybrid.HybridOptions()) == requested


def test_fuse_without_defaults_uses_general_weight() -> None:
    requested = hybrid.fuse(of_two_models(), hybrid.HybridOptions(dense_weight=UNKNOWN_MODEL.dense_weight))
    assert hybrid.fuse(of_two_models(), hybrid.HybridOptions()) == requested


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [({}, True), ({SECOND.bytes: 0.9}, True), ({FIRST.bytes: 0.95}, False), ({FIRST.bytes: 0.8}, True)],
)
def test_may_have_more_compares_with_threshold_of_the_index(thresholds: dict[bytes, float], expected: bool) -> None:
    call = replace(CALLS[0], vector=np.ones(4, np.float32))
    lists = [listed(0, "dense", (5, 0.95, 0.95), (6, 0.9, 0.9))]
    assert may_have_more([call], lists, size=2, thresholds=thresholds) is expected


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

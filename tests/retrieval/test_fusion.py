"""Fusion, case by case, and compared with a slower implementation of its definitions."""

import random
from uuid import UUID

import pytest

from app.retrieval.fusion.rank_fusion import RankedList, fuse_rrf, fuse_weighted

Hits = list[tuple[str, float]]

WEIGHTED: list[tuple[str, list[tuple[float, Hits]], Hits]] = [
    ("no lanes", [], []),
    ("empty lane", [(1.0, [])], []),
    ("one hit counts fully", [(0.7, [("a", -3.0)])], [("a", 0.7)]),
    ("equal scores count fully, ties by key", [(1.0, [("b", 0.5), ("a", 0.5)])], [("a", 1.0), ("b", 1.0)]),
    (
        "scaled by the lane's span",
        [(1.0, [("a", 30.0), ("b", 15.0), ("c", 10.0)])],
        [("a", 1.0), ("b", 0.25), ("c", 0.0)],
    ),
    ("negative scores", [(1.0, [("a", -1.0), ("b", -2.0), ("c", -5.0)])], [("a", 1.0), ("b", 0.75), ("c", 0.0)]),
    (
        "absent counts nothing",
        [(0.75, [("a", 1.0), ("b", 0.0)]), (0.25, [("b", 9.0), ("c", 1.0)])],
        [("a", 0.75), ("b", 0.25), ("c", 0.0)],
    ),
    (
        "best of duplicates",
        [(1.0, [("a", 4.0), ("b", 3.0), ("b", 1.0), ("c", 2.0)])],
        [("a", 1.0), ("b", 0.5), ("c", 0.0)],
    ),
    ("a lane of weight 0 adds its keys only", [(0.0, [("z", 2.0), ("y", 1.0)])], [("y", 0.0), ("z", 0.0)]),
    ("one lane empty", [(0.5, [("a", 2.0), ("b", 1.0)]), (0.5, [])], [("a", 0.5), ("b", 0.0)]),
]

RANKED: list[tuple[str, list[tuple[float, Hits]], Hits]] = [
    ("no lanes", [], []),
    ("ranks from one", [(1.0, [("a", 9.0), ("b", 9.0)])], [("a", 1 / 61), ("b", 1 / 62)]),
    ("order counts, scores do not", [(1.0, [("b", 0.0), ("a", 5.0)])], [("b", 1 / 61), ("a", 1 / 62)]),
    (
        "weights",
        [(2.0, [("a", 1.0), ("b", 0.5)]), (1.0, [("b", 7.0)])],
        [("b", 2 / 62 + 1 / 61), ("a", 2 / 61)],
    ),
    ("ties by key", [(1.0, [("b", 1.0)]), (1.0, [("a", 1.0)])], [("a", 1 / 61), ("b", 1 / 61)]),
    (
        "duplicates leave no gap",
        [(1.0, [("a", 3.0), ("a", 2.0), ("b", 1.0)])],
        [("a", 1 / 61), ("b", 1 / 62)],
    ),
]


def ranked_lists(given: list[tuple[float, Hits]]) -> list[RankedList[str]]:
    return [RankedList(weight, hits) for weight, hits in given]


@pytest.mark.capability("fusion-weighted")
@pytest.mark.parametrize(("given", "fused"), [row[1:] for row in WEIGHTED], ids=[row[0] for row in WEIGHTED])
def test_fuse_weighted_returns_expected_scores(given: list[tuple[float, Hits]], fused: Hits) -> None:
    assert fuse_weighted(ranked_lists(given)) == fused


@pytest.mark.capability("fusion-rrf")
@pytest.mark.parametrize(("given", "fused"), [row[1:] for row in RANKED], ids=[row[0] for row in RANKED])
def test_fuse_rrf_returns_expected_scores(given: list[tuple[float, Hits]], fused: Hits) -> None:
    result = fuse_rrf(ranked_lists(given))
    assert [key for key, _ in result] == [key for key, _ in fused]
    assert [score for _, score in result] == pytest.approx([score for _, score in fused])


@pytest.mark.capability("fusion-rrf-k")
def test_fuse_rrf_smaller_k_favours_the_top() -> None:
    given = ranked_lists([(1.0, [("a", 1.0), ("b", 1.0)]), (1.0, [("b", 1.0), ("c", 1.0)])])
    assert fuse_rrf(given, k=1) == [("b", 1 / 3 + 1 / 2), ("a", 1 / 2), ("c", 1 / 3)]


def test_fuse_accepts_keys_of_any_type() -> None:
    keys = [UUID(int=number) for number in (2, 1)]
    assert [key for key, _ in fuse_weighted([RankedList(1.0, [(key, 1.0) for key in keys])])] == sorted(keys)


def test_fuse_random_lists_equal_definitions() -> None:
    rng = random.Random(11)
    for _ in range(200):
        given = [
            RankedList(
                rng.random(),
                sorted(((rng.randrange(30), rng.random()) for _ in range(rng.randint(0, 40))), key=lambda h: -h[1]),
            )
            for _ in range(4)
        ]
        keys = {key for lane in given for key, _ in lane.hits}
        weighted, ranked = dict.fromkeys(keys, 0.0), dict.fromkeys(keys, 0.0)
        for lane in given:
            best = {key: max(score for other, score in lane.hits if other == key) for key, _ in lane.hits}
            places = sorted(best, key=lambda key: -best[key])
            for key in best:
                low, high = min(best.values()), max(best.values())
                weighted[key] += lane.weight * (1.0 if high == low else (best[key] - low) / (high - low))
                ranked[key] += lane.weight / (61 + places.index(key))
        for fused, expected in ((fuse_weighted(given), weighted), (fuse_rrf(given), ranked)):
            assert dict(fused) == pytest.approx(expected)
            assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
            assert len(fused) == len(keys)

"""Scaling of cosines and BM25 scores, and the fusion of both."""

import random
from itertools import pairwise

import pytest

from app.retrieval.fusion.score_fusion import place_below, scale_cosines, scale_range
from app.retrieval.retrievers.ranking import RankedKeys, RetrieverResults
from app.retrieval.strategies.hybrid import HybridOptions, fuse

SPAN = 0.4


def key(number: int, index: int = 0) -> bytes:
    return bytes([index]) * 16 + number.to_bytes(16, "big")


def results_of(
    dense: dict[int, float], lexical: dict[int, float], cosines: dict[int, float], span: float | None = SPAN
) -> RetrieverResults:
    """Return the results of one query in one search index; ``cosines`` are those of lexical rows."""

    def rank(scores: dict[int, float]) -> RankedKeys:
        return sorted(((key(number), score) for number, score in scores.items()), key=lambda item: -item[1])

    known = {key(number): cosine for number, cosine in {**dense, **cosines}.items()}
    return RetrieverResults(
        dense=[[rank(dense)]],
        lexical=[rank(lexical)],
        similarity=known,
        cosines=[known],
        model_numbers={bytes(16): 0},
        cosine_spans=[span],
    )


def numbers_of(ranked: RankedKeys) -> list[int]:
    return [int.from_bytes(chunk[16:], "big") for chunk, _ in ranked]


def test_scale_cosines_difference_of_span_becomes_zero() -> None:
    assert scale_cosines({"a": 0.9, "b": 0.7, "c": 0.5, "d": -0.2}, SPAN) == pytest.approx(
        {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.0}
    )


def test_scale_cosines_unknown_span_uses_range() -> None:
    assert scale_cosines({"a": 0.9, "b": 0.7, "c": 0.5}, None) == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0})


@pytest.mark.parametrize("span", [SPAN, None])
@pytest.mark.parametrize("cosines", [{}, {"a": 0.0}, {"a": -0.3}, {"a": 0.5, "b": 0.5}])
def test_scale_cosines_equal_cosines_become_one(cosines: dict[str, float], span: float | None) -> None:
    assert scale_cosines(cosines, span) == dict.fromkeys(cosines, 1.0)


def test_scale_range_scales_to_lowest_and_highest() -> None:
    assert scale_range({"a": 6.0, "b": 3.0, "c": 2.0}) == pytest.approx({"a": 1.0, "b": 0.25, "c": 0.0})
    assert scale_range({"a": 6.0, "b": 6.0}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("floor", [0.5, 0.0, -3.0])
def test_place_below_scores_have_same_order_and_ties(floor: float) -> None:
    placed = place_below([("a", 9.0), ("b", 9.0000001), ("c", 3.0)], floor)
    assert [item for item, _ in placed] == ["a", "b", "c"]
    assert placed[0][1] == placed[1][1] < floor
    assert placed[2][1] < placed[1][1]


@pytest.mark.parametrize("floor", [0.1234565, 0.25 + 5e-7, 0.9999995, -0.0000005, 0.4321044999, 0.0])
def test_place_below_rounded_scores_differ(floor: float) -> None:
    """Callers see six digits, and equal scores would count as ties."""
    placed = place_below([(number, -float(number)) for number in range(300)], floor)
    rounded = [round(score, 6) for score in (floor, *(score for _, score in placed))]
    assert all(higher > lower for higher, lower in pairwise(rounded))


def test_fuse_lexical_hit_counts_with_its_cosine() -> None:
    """Two chunks have the same BM25 score, and only the lexical retriever found them."""
    results = results_of({1: 0.8}, {2: 5.0, 3: 5.0, 4: 1.0}, {2: 0.45, 3: 0.75, 4: 0.1})
    ranked = fuse(results, HybridOptions(dense_weight=0.5))
    assert numbers_of(ranked) == [3, 2, 1, 4]
    assert dict(ranked) == pytest.approx({key(3): 0.9375, key(2): 0.5625, key(1): 0.5, key(4): 0.0})


def test_fuse_unrelated_lexical_hit_is_below_related_ones() -> None:
    """A chunk with a common word and a low cosine is not better than a chunk that is found by its meaning alone."""
    results = results_of({number: 0.8 - number / 100 for number in range(9)}, {50: 3.0, 51: 2.9}, {50: 0.02, 51: 0.01})
    ranked = fuse(results, HybridOptions(dense_weight=0.55))
    assert numbers_of(ranked)[0] == 0
    assert numbers_of(ranked).index(50) > 3


def test_fuse_similar_chunks_leave_identifier_first() -> None:
    """In a collection of similar texts, small differences of cosines do not outweigh the only chunk with the word."""
    dense = {number: 0.60 - number / 2000 for number in range(100)}
    results = results_of(dense, {500: 9.0, 1: 0.3, 2: 0.2}, {500: 0.51})
    assert numbers_of(fuse(results, HybridOptions(dense_weight=0.55)))[0] == 500


def test_fuse_without_vector_has_lexical_order() -> None:
    results = results_of({}, {number: float(number) for number in range(9)}, {})
    assert numbers_of(fuse(results, HybridOptions())) == list(range(8, -1, -1))


def test_fuse_models_have_their_own_scale() -> None:
    """The best chunk of each model gets the full weight, although their cosines differ."""
    first, second = [(key(1), 0.9), (key(2), 0.5)], [(key(3, 1), 0.3), (key(4, 1), 0.25)]
    results = RetrieverResults(
        dense=[[first], [second]],
        lexical=[[]],
        model_numbers={bytes(16): 0, b"\1" * 16: 1},
        cosine_spans=[0.4, 0.1],
    )
    assert dict(fuse(results, HybridOptions(dense_weight=1))) == pytest.approx(
        {key(1): 1.0, key(3, 1): 1.0, key(4, 1): 0.5, key(2): 0.0}
    )


@pytest.mark.parametrize("seed", range(5))
def test_fuse_scores_are_between_zero_and_one(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        dense = {number: chance.uniform(-1, 1) for number in range(chance.randrange(9))}
        lexical = {chance.randrange(20): chance.uniform(0.1, 30) for _ in range(chance.randrange(9))}
        cosines = {number: chance.uniform(-1, 1) for number in lexical if number not in dense and chance.random() < 0.8}
        results = results_of(dense, lexical, cosines, chance.choice([None, 0.1, 0.4]))
        ranked = fuse(results, HybridOptions(dense_weight=chance.random()))
        assert {chunk for chunk, _ in ranked} == {key(number) for number in {*dense, *lexical}}
        assert all(0 <= score <= 1 + 1e-9 for _, score in ranked)
        assert all(first >= second for (_, first), (_, second) in pairwise(ranked))

"""Which knowledge bases are chosen, case by case."""

from uuid import UUID

import numpy as np
import pytest

from app.retrieval.routes import Reason
from app.retrieval.routing import Candidate, Likeness, Profile, choose, explain, models_to_ask, narrowed, score_of
from app.retrieval.routing_profiles import IndexVectors, KnownProfiles, ProfileMatrix, Profiles, matrices_of

A, B = UUID(int=100), UUID(int=200)


def candidate(
    name: str, *models: UUID, scale: float = 1.0, weight: float = 0.3, free: Reason | None = None
) -> Candidate:
    """Its search indexes are named by the first letter, the second one's beside it: of the shared knowledge base."""
    profiles = [Profile(UUID(int=ord(name[0]) * 10 + place), model, weight) for place, model in enumerate(models)]
    return Candidate(UUID(int=ord(name[0])), name, scale, profiles, free)


def alike(**cosines: float | tuple[float | None, float | None]) -> dict[UUID, Likeness]:
    """By name: with centroids, or with these and texts; ``x2`` is the shared one's of ``x``."""
    return {
        UUID(int=ord(name[0]) * 10 + (len(name) - 1)): Likeness(*one) if isinstance(one, tuple) else Likeness(one)
        for name, one in cosines.items()
    }


@pytest.mark.parametrize(
    ("candidates", "likeness", "top_n", "chosen"),
    [
        ([candidate(name, A) for name in "abc"], alike(a=0.1, b=0.9, c=0.5), 1, "b"),
        ([candidate(name, A) for name in "abc"], alike(a=0.1, b=0.9, c=0.5), 2, "bc"),
        # Ties by name.
        ([candidate(name, A) for name in "cab"], alike(a=0.5, b=0.5, c=0.5), 2, "ab"),
        # Those that are searched anyway take nobody's place.
        (
            [candidate("a", A, free="always"), candidate("b"), candidate("c", A), candidate("d", A)],
            alike(a=0.9, c=0.2, d=0.3),
            1,
            "abd",
        ),
        ([candidate("a", A, scale=2.0), candidate("b", A)], alike(a=0.3, b=0.5), 1, "a"),
        ([candidate("a", A, scale=2.0), candidate("b", A)], alike(a=-0.3, b=-0.4), 1, "a"),
        ([candidate("a", A), candidate("b", A)], alike(a=(0.5, 0.1), b=0.4), 1, "b"),
        ([candidate("a", A), candidate("b", A)], alike(a=(None, 0.45), b=(0.4, 0.4)), 1, "a"),
        # Each model chooses for itself, and what was not compared is searched.
        (
            [candidate("a", A), candidate("b", A), candidate("c", B), candidate("d", B)],
            alike(a=0.1, b=0.2, c=0.8, d=0.9),
            1,
            "bd",
        ),
        ([candidate("a", A), candidate("b", A), candidate("c", UUID(int=3))], alike(a=0.1, b=0.2), 1, "bc"),
        ([candidate("a", A), candidate("b", A)], alike(b=0.2), 1, "ab"),
        # A knowledge base is as good as the shared one of its name.
        ([candidate("a", A, A), candidate("b", A)], alike(a=0.1, a2=0.9, b=0.5), 1, "a"),
        ([candidate("a", A, B), candidate("b", A), candidate("c", B)], alike(a=0.1, a2=0.9, b=0.5, c=0.2), 1, "ab"),
        ([], {}, 3, ""),
    ],
)
def test_the_best_of_each_model(
    candidates: list[Candidate], likeness: dict[UUID, Likeness], top_n: int, chosen: str
) -> None:
    found = choose(candidates, likeness, {A, B}, top_n=top_n)
    assert sorted(one.name for one in found) == list(chosen)
    told = explain(candidates, likeness, {A, B}, found)
    assert {one.name for one in told if one.chosen} == set(chosen)
    assert len(told) == len(candidates)


def test_why_is_told_the_chosen_first() -> None:
    candidates = [
        candidate("a", A), candidate("b", A), candidate("c", A, free="always"), candidate("d", A, free="own_documents"),
        candidate("e", free="nothing_known"), candidate("f", UUID(int=3)),
    ]  # fmt: skip
    likeness = alike(a=0.2, b=(0.5, 0.1))
    told = explain(candidates, likeness, {A}, choose(candidates, likeness, {A}, top_n=1))
    assert [(one.name, one.chosen, one.reason) for one in told] == [
        ("b", True, "best"), ("c", True, "always"), ("d", True, "own_documents"), ("e", True, "nothing_known"),
        ("f", True, "not_compared"), ("a", False, "less_alike"),
    ]  # fmt: skip
    assert told[0].score == pytest.approx(0.7 * 0.5 + 0.3 * 0.1)
    assert (told[0].centroids, told[0].texts) == (0.5, 0.1)
    assert told[1].score is None


@pytest.mark.parametrize(
    ("likeness", "weight", "scale", "score"),
    [
        (Likeness(0.5, None), 0.3, 1.0, 0.5),
        (Likeness(None, 0.5), 0.3, 1.0, 0.5),
        (Likeness(0.5, 1.0), 0.0, 1.0, 0.5),
        (Likeness(0.5, 1.0), 1.0, 1.0, 1.0),
        (Likeness(0.5, 1.0), 0.5, 2.0, 1.5),
        (Likeness(-0.5, None), 0.3, 2.0, -0.25),
    ],
)
def test_descriptions_are_mixed_in(likeness: Likeness, weight: float, scale: float, score: float) -> None:
    assert score_of(likeness, weight=weight, scale=scale) == pytest.approx(score)


def test_only_what_may_be_read_and_what_holds_documents_of_ones_own() -> None:
    candidates = [candidate("a", A), candidate("b", A), candidate("c", A, free="always")]
    found = narrowed(candidates, [UUID(int=ord("b")), UUID(int=ord("c"))], {UUID(int=ord(name)) for name in "abc"})
    assert [(one.name, one.free) for one in found] == [("b", "own_documents"), ("c", "always")]
    assert narrowed(candidates, None, set()) == candidates


@pytest.mark.parametrize(("top_n", "asked"), [(1, {A, B}), (2, {A}), (3, set())])
def test_a_model_is_asked_where_there_is_something_to_choose(top_n: int, asked: set[UUID]) -> None:
    candidates = [candidate("a", A), candidate("b", A, B), candidate("c", A), candidate("d", B)]
    assert models_to_ask([*candidates, candidate("e", B, free="always")], top_n=top_n) == asked


def unit(*numbers: float) -> np.ndarray:
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector)


def test_the_most_alike_vector_counts_for_the_most_alike_query() -> None:
    x, y, z = (unit(*row) for row in np.eye(3))
    none = np.zeros((0, 3), np.float32)
    indexes = {
        UUID(int=970): IndexVectors(1, np.stack([x, y]), np.stack([z])),
        UUID(int=980): IndexVectors(1, np.stack([y]), none),
        UUID(int=990): IndexVectors(1, none, np.stack([unit(1, 1, 0), z])),
    }
    candidates = [candidate("a", A), candidate("b", A), candidate("c", A), candidate("d", A), candidate("e")]
    matrix = matrices_of(candidates, indexes)[A]
    assert isinstance(matrix, ProfileMatrix)
    found = {index: tuple(one) for index, one in matrix.likeness([x]).items()}
    half = pytest.approx(0.5**0.5)
    assert found == {UUID(int=970): (1.0, 0.0), UUID(int=980): (0.0, None), UUID(int=990): (None, half)}
    both = matrix.likeness([x, y])
    assert (both[UUID(int=970)].centroids, both[UUID(int=980)].centroids) == (1.0, 1.0)


def test_the_longest_unused_profiles_go() -> None:
    known = KnownProfiles()
    large = np.zeros((2**17, 64), np.float32)  # 32 MB
    matrix = ProfileMatrix(large, np.array([0]), [(UUID(int=1), False)])
    for number in range(6):
        known.keep(UUID(int=number), Profiles(number, [], {}, {A: matrix}))
    assert [known.get(UUID(int=number)) is not None for number in range(6)] == [False, False, True, True, True, True]

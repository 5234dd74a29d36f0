"""Routing: the choice of knowledge bases, case by case."""

import random
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
import pytest

from app.retrieval.routes import RoutingDecision, RoutingReason
from app.retrieval.routing.candidates import (
    Candidate,
    Candidates,
    Numbers,
    Profile,
    explain_routing,
    filter_candidates,
    find_competing_models,
    select_top_n,
)
from app.retrieval.routing.profile_cache import (
    MAX_INLINE_OPERATIONS,
    IndexVectors,
    ProfileCache,
    ProfileMatrix,
    TenantProfiles,
    build_matrices,
)
from tests.retrieval import routing_reference as reference
from tests.retrieval.routing_reference import Likeness

A, B = UUID(int=100), UUID(int=200)
MODELS = [A, B, UUID(int=300)]


def candidate(
    name: str, *models: UUID, scale: float = 1.0, weight: float = 0.3, free: RoutingReason | None = None
) -> Candidate:
    """Return a candidate.

    Its search indexes are numbered by the name's first letter; the next number is the shared one's.
    """
    profiles = [Profile(UUID(int=ord(name[0]) * 10 + place), model, weight) for place, model in enumerate(models)]
    return Candidate(UUID(int=ord(name[0])), name, scale, profiles, free)


def alike(**cosines: float | tuple[float | None, float | None]) -> dict[UUID, Likeness]:
    """Return cosines by name: centroids alone, or centroids and texts; ``x2`` is the shared index of ``x``."""
    return {
        UUID(int=ord(name[0]) * 10 + (len(name) - 1)): Likeness(*one) if isinstance(one, tuple) else Likeness(one)
        for name, one in cosines.items()
    }


@pytest.mark.parametrize(
    ("candidates", "likeness", "top_n", "chosen"),
    [
        ([candidate(name, A) for name in "abc"], alike(a=0.1, b=0.9, c=0.5), 1, "b"),
        ([candidate(name, A) for name in "abc"], alike(a=0.1, b=0.9, c=0.5), 2, "bc"),
        # Ties are ordered by name.
        ([candidate(name, A) for name in "cab"], alike(a=0.5, b=0.5, c=0.5), 2, "ab"),
        ([candidate(name, A, scale=2.0) for name in "ba"], alike(a=0.0, b=-0.0), 1, "a"),
        # Knowledge bases that are searched in any case do not count.
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
        # Each model chooses separately, and knowledge bases that were not compared are searched.
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
def test_routing_chooses_best_of_each_model(
    candidates: list[Candidate], likeness: dict[UUID, Likeness], top_n: int, chosen: str
) -> None:
    told = routed(candidates, likeness, top_n=top_n)
    assert sorted(one.name for one in told if one.is_chosen) == list(chosen)
    assert len(told) == len(candidates)


def table(candidates: Candidates, likeness: Mapping[UUID, Likeness]) -> Numbers:
    """Return the same cosines as arrays."""
    alike = candidates.create_similarities()
    for index_id, cosines in likeness.items():
        alike[:, *candidates.positions[index_id]] = [np.nan if one is None else one for one in cosines]
    return alike


def routed(
    each: Sequence[Candidate],
    likeness: Mapping[UUID, Likeness],
    *,
    top_n: int,
    only: Sequence[UUID] | None = None,
    holding: Sequence[UUID] = (),
) -> list[RoutingDecision]:
    candidates = Candidates.from_candidates(each)
    readable, alike = filter_candidates(candidates, only, holding), table(candidates, likeness)
    chosen = select_top_n(readable, alike, top_n=top_n)
    told = explain_routing(readable, alike, chosen)
    assert sorted(readable.get_ids(chosen)) == sorted(one.kb_id for one in told if one.is_chosen)
    return told


@pytest.mark.capability("routing-explain")
def test_routing_decisions_list_chosen_first_with_reasons() -> None:
    candidates = [
        candidate("a", A), candidate("b", A), candidate("c", A, free="always"), candidate("d", A),
        candidate("e", free="no_profile"), candidate("f", UUID(int=3)),
    ]  # fmt: skip
    told = routed(candidates, alike(a=0.2, b=(0.5, 0.1)), top_n=1, holding=[UUID(int=ord("d"))])
    assert [(one.name, one.is_chosen, one.reason) for one in told] == [
        ("b", True, "best"), ("c", True, "always"), ("d", True, "own_documents"), ("e", True, "no_profile"),
        ("f", True, "not_compared"), ("a", False, "less_similar"),
    ]  # fmt: skip
    assert told[0].score == pytest.approx(0.7 * 0.5 + 0.3 * 0.1)
    assert (told[0].centroids, told[0].texts) == (0.5, 0.1)
    assert told[1].score is None


@pytest.mark.capability("routing-mix")
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
def test_routing_mixes_in_descriptions(likeness: Likeness, weight: float, scale: float, score: float) -> None:
    one = candidate("a", A, weight=weight, scale=scale)
    told = routed([one], {one.profiles[0].index_id: likeness}, top_n=1)
    assert told[0].score == pytest.approx(score)


def test_routing_considers_readable_and_own_documents() -> None:
    candidates = [candidate("a", A), candidate("b", A), candidate("c", A, free="always")]
    a, b, c, gone = (UUID(int=ord(name)) for name in "abcx")
    told = routed(candidates, {}, top_n=1, only=[b, c, gone], holding=[a, b, c, gone])
    assert [(one.name, one.reason) for one in told] == [("b", "own_documents"), ("c", "always")]


@pytest.mark.parametrize(("top_n", "asked"), [(1, {A, B}), (2, {A}), (3, set())])
def test_routing_embeds_only_with_competing_models(top_n: int, asked: set[UUID]) -> None:
    each = [candidate("a", A), candidate("b", A, B), candidate("c", A), candidate("d", B)]
    candidates = Candidates.from_candidates([*each, candidate("e", B, free="always"), candidate("f", B)])
    assert find_competing_models(filter_candidates(candidates, None, [UUID(int=ord("f"))]), top_n=top_n) == asked


def made_up(rng: random.Random, number: int) -> Candidate:
    """Return a candidate with up to two profiles of three models, and few different numbers, so that many are equal."""
    profiles = [
        Profile(UUID(int=1000 + 2 * number + place), rng.choice(MODELS), rng.choice((0.0, 0.3, 1.0)))
        for place in range(rng.choice((0, 1, 1, 1, 2, 2)))
    ]
    free: RoutingReason | None = rng.choice(("always", *[None] * 8)) if profiles else "no_profile"
    return Candidate(UUID(int=number + 1), f"kb {rng.random()}", rng.choice((0.5, 1.0, 1.0, 2.0)), profiles, free)


@pytest.mark.parametrize("seed", range(200))
def test_routing_arrays_equal_plain_python(seed: int) -> None:
    rng = random.Random(seed)
    cosines = [None, -0.5, -0.1, 0.0, 0.2, 0.2, 0.4, rng.uniform(-1, 1)]
    each = [made_up(rng, number) for number in range(rng.randrange(40))]
    ids = [one.kb_id for one in each]
    only = rng.choice((None, [one for one in ids if rng.random() < 0.7]))
    holding = [one for one in ids if rng.random() < 0.1]
    top_n = rng.choice((1, 2, 3, 10))
    readable = reference.narrowed(each, only, holding)
    asked = find_competing_models(filter_candidates(Candidates.from_candidates(each), only, holding), top_n=top_n)
    assert asked == reference.models_to_ask(readable, top_n=top_n)
    answering = {model for model in asked if rng.random() < 0.8}
    known = {
        profile.index_id: Likeness(rng.choice(cosines), rng.choice(cosines))
        for one in each
        for profile in one.profiles
        if profile.model in answering and rng.random() < 0.95
    }
    known = {index_id: like for index_id, like in known.items() if like != Likeness()}
    told = routed(each, known, top_n=top_n, only=only, holding=holding)
    assert told == reference.routed(readable, known, answering, top_n=top_n)


def unit(*numbers: float) -> np.ndarray:
    vector = np.array(numbers, np.float32)
    return vector / np.linalg.norm(vector)


async def test_routing_highest_similarity_of_vectors_and_queries_counts() -> None:
    x, y, z = (unit(*row) for row in np.eye(3))
    none = np.zeros((0, 3), np.float32)
    indexes = {
        UUID(int=970): IndexVectors(1, np.stack([x, y]), np.stack([z])),
        UUID(int=980): IndexVectors(1, np.stack([y]), none),
        UUID(int=990): IndexVectors(1, none, np.stack([unit(1, 1, 0), z])),
    }
    candidates = Candidates.from_candidates(
        [candidate("a", A), candidate("b", A), candidate("c", A), candidate("d", A), candidate("e")]
    )
    matrix = build_matrices(candidates, indexes)[A]
    alike = candidates.create_similarities()
    await matrix.fill_similarities([x], alike)
    own, nan = alike[:, 0], np.nan
    np.testing.assert_allclose(own, [[1.0, 0.0, nan, nan, nan], [0.0, nan, 0.5**0.5, nan, nan]], rtol=1e-6)
    assert np.isnan(alike[:, 1]).all()  # there is no shared index
    await matrix.fill_similarities([x, y], alike)
    assert own[0, :2].tolist() == [1.0, 1.0]


async def test_routing_large_profiles_are_compared_equally() -> None:
    """Large profiles are compared in a thread."""
    candidates = Candidates.from_candidates([candidate("a", A), candidate("b", A)])
    many = np.zeros((MAX_INLINE_OPERATIONS // 4, 2), np.float32)
    parts = [np.concatenate([many, [unit(*direction)]]).astype(np.float32) for direction in ((1, 0), (3, 4))]
    none = np.zeros((0, 2), np.float32)
    indexes = {UUID(int=number): IndexVectors(1, one, none) for number, one in zip((970, 980), parts, strict=True)}
    alike = candidates.create_similarities()
    await build_matrices(candidates, indexes)[A].fill_similarities([unit(1, 0)], alike)
    np.testing.assert_allclose(alike[0, 0], [1.0, 0.6], rtol=1e-6)


def test_profile_cache_evicts_least_recently_used() -> None:
    known = ProfileCache()
    large = np.zeros((2**17, 64), np.float32)  # 32 MB
    matrix = ProfileMatrix(large, np.array([0]), tuple(np.zeros((3, 1), np.intp)))
    for number in range(6):
        known.put(UUID(int=number), TenantProfiles(number, Candidates.from_candidates([]), {}, {A: matrix}))
    assert [known.get(UUID(int=number)) is not None for number in range(6)] == [False, False, True, True, True, True]


def test_profile_cache_does_not_evict_for_too_large_profile() -> None:
    known = ProfileCache(max_bytes=1000)
    small, large = (ProfileMatrix(np.zeros((rows, 25), np.float32), np.array([0]), ()) for rows in (1, 20))
    for number, matrix in enumerate((small, small, large)):
        known.put(UUID(int=number), TenantProfiles(number, Candidates.from_candidates([]), {}, {A: matrix}))
    assert [known.get(UUID(int=number)) is not None for number in range(3)] == [False, False, True]
    known.put(UUID(int=3), TenantProfiles(3, Candidates.from_candidates([]), {}, {A: small}))
    assert [known.get(UUID(int=number)) is not None for number in (2, 3)] == [False, True]

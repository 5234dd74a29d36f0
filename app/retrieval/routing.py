"""Which knowledge bases a query goes to, by what they are about (pure)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from app.retrieval.sources import counted
from app.retrieval.types import Reason, RoutedKnowledgeBase


class Likeness(NamedTuple):
    """The best cosines of a query with a search index's centroids, and with what people say of it."""

    centroids: float | None = None
    texts: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search index is compared by; ``model`` made its vectors, and texts have the share ``weight``."""

    index_id: UUID
    model: UUID
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A knowledge base that the key may read, with the profiles of its own index and of the shared one of its name.

    ``free`` is why it is searched whatever its profiles say.
    """

    kb_id: UUID
    name: str
    scale: float
    profiles: Sequence[Profile]
    free: Reason | None = None


def models_to_ask(candidates: Sequence[Candidate], *, top_n: int) -> set[UUID]:
    """The models in which there is something to choose: more knowledge bases than may be chosen."""
    counts: dict[UUID, int] = {}
    for one in candidates:
        if one.free is None:
            for model in {profile.model for profile in one.profiles}:
                counts[model] = counts.get(model, 0) + 1
    return {model for model, count in counts.items() if count > top_n}


def choose(
    candidates: Sequence[Candidate], likeness: Mapping[UUID, Likeness], asked: Set[UUID], *, top_n: int
) -> list[RoutedKnowledgeBase]:
    """Every candidate with what became of it: the chosen first, best first, ties by name.

    ``likeness`` is by search index, for the models of ``asked``; each of them gives its best ``top_n``. What another
    model made was not compared, and is chosen.
    """
    scored: dict[UUID, list[tuple[float, Candidate]]] = {model: [] for model in asked}
    routed = []
    for one in candidates:
        models = {profile.model for profile in one.profiles}
        found = {model: best for model in models & asked if (best := _best(one, model, likeness)) is not None}
        if one.free is not None or len(found) < len(models):
            routed.append(_routed(one, Likeness(), None, one.free or "not_compared"))
            continue
        for model, (score, _) in found.items():
            scored[model].append((score, one))
        score, like = max(found.values(), key=lambda pair: pair[0])
        routed.append(_routed(one, like, score, "less_alike"))
    chosen = {one.kb_id for ranked in scored.values() for _, one in sorted(ranked, key=_best_first)[:top_n]}
    routed = [replace(one, chosen=True, reason="best") if one.kb_id in chosen else one for one in routed]
    return sorted(routed, key=lambda one: (not one.chosen, -(2.0 if one.score is None else one.score), one.name))


def score_of(likeness: Likeness, *, weight: float, scale: float) -> float:
    """Of both, or where only one of them is known of that alone."""
    centroids, texts = likeness
    if centroids is None or texts is None:
        mixed = centroids if texts is None else texts
        assert mixed is not None
    else:
        mixed = (1 - weight) * centroids + weight * texts
    return counted(mixed, scale)


def _best(one: Candidate, model: UUID, likeness: Mapping[UUID, Likeness]) -> tuple[float, Likeness] | None:
    """Of its own index and the shared one, for both are searched under its name; None where nothing is known."""
    found = [
        (score_of(like, weight=profile.weight, scale=one.scale), like)
        for profile in one.profiles
        if profile.model == model and (like := likeness.get(profile.index_id)) is not None
    ]
    return max(found, key=lambda pair: pair[0], default=None)


def _routed(one: Candidate, likeness: Likeness, score: float | None, reason: Reason) -> RoutedKnowledgeBase:
    return RoutedKnowledgeBase(
        one.kb_id, one.name, reason != "less_alike", reason, score, likeness.centroids, likeness.texts, one.scale
    )


def _best_first(found: tuple[float, Candidate]) -> tuple[float, str]:
    return -found[0], found[1].name

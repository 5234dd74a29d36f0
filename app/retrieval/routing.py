"""Which knowledge bases a query goes to, by what they are about (pure)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import NamedTuple
from uuid import UUID

from app.retrieval.routes import Reason, RoutedKnowledgeBase
from app.retrieval.sources import counted


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

    @property
    def models(self) -> set[UUID]:
        """Those that have made its vectors."""
        return {profile.model for profile in self.profiles}


def narrowed(candidates: Sequence[Candidate], only: Collection[UUID] | None, holding: Set[UUID]) -> list[Candidate]:
    """Those of ``only``; what is ``holding`` documents of the user or the chat that is searched for is free."""
    allowed = None if only is None else frozenset(only)
    return [
        replace(one, free="own_documents") if one.free is None and one.kb_id in holding else one
        for one in candidates
        if allowed is None or one.kb_id in allowed
    ]


def models_to_ask(candidates: Sequence[Candidate], *, top_n: int) -> set[UUID]:
    """The models in which there is something to choose: more knowledge bases than may be chosen."""
    counts = Counter(model for one in candidates if one.free is None for model in one.models)
    return {model for model, count in counts.items() if count > top_n}


def choose(
    candidates: Sequence[Candidate], likeness: Mapping[UUID, Likeness], asked: Set[UUID], *, top_n: int
) -> list[Candidate]:
    """The best ``top_n`` of each model of ``asked``, ties by name, and all that was not compared; as they stand.

    ``likeness`` is by search index.
    """
    scored: dict[UUID, list[tuple[float, str, UUID]]] = {model: [] for model in asked}
    chosen = set()
    for one in candidates:
        found = _compared(one, likeness, asked)
        if found is None:
            chosen.add(one.kb_id)
        else:
            for model, (score, _) in found.items():
                scored[model].append((-score, one.name, one.kb_id))
    chosen |= {kb_id for ranked in scored.values() for _, _, kb_id in nsmallest(top_n, ranked)}
    return [one for one in candidates if one.kb_id in chosen]


def explain(
    candidates: Sequence[Candidate], likeness: Mapping[UUID, Likeness], asked: Set[UUID], chosen: Sequence[Candidate]
) -> list[RoutedKnowledgeBase]:
    """Every candidate with what became of it: the chosen first, then the best, ties by name."""
    ids = {one.kb_id for one in chosen}
    told = []
    for one in candidates:
        found = _compared(one, likeness, asked)
        if found is None:
            told.append(RoutedKnowledgeBase(one.kb_id, one.name, True, one.free or "not_compared", scale=one.scale))
            continue
        score, like = max(found.values(), key=lambda pair: pair[0])
        is_chosen = one.kb_id in ids
        reason: Reason = "best" if is_chosen else "less_alike"
        told.append(RoutedKnowledgeBase(one.kb_id, one.name, is_chosen, reason, score, *like, one.scale))
    return sorted(told, key=lambda one: (not one.chosen, one.score is None, -(one.score or 0.0), one.name))


def _compared(
    one: Candidate, likeness: Mapping[UUID, Likeness], asked: Set[UUID]
) -> dict[UUID, tuple[float, Likeness]] | None:
    """By model, the best of its own index and the shared one, for both are searched under its name.

    None where it is searched whatever its score, or where one of its models was not asked or has nothing of it.
    """
    if one.free is not None:
        return None
    found: dict[UUID, tuple[float, Likeness]] = {}
    for profile in one.profiles:
        like = likeness.get(profile.index_id) if profile.model in asked else None
        if like is None:
            return None
        score = score_of(like, weight=profile.weight, scale=one.scale)
        if profile.model not in found or score > found[profile.model][0]:
            found[profile.model] = (score, like)
    return found or None


def score_of(likeness: Likeness, *, weight: float, scale: float) -> float:
    """Of both, or where only one of them is known of that alone."""
    centroids, texts = likeness
    if centroids is None or texts is None:
        mixed = centroids if texts is None else texts
        assert mixed is not None
    else:
        mixed = (1 - weight) * centroids + weight * texts
    return counted(mixed, scale)

"""Fusion of ranked lists into one: by weighted, min-max scaled scores or by reciprocal ranks (pure)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import eq, itemgetter
from typing import Any, Generic, Protocol, TypeVar


class Orderable(Protocol):
    """What can be a key: hashable, and comparable with its like to break ties."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


KeyT = TypeVar("KeyT", bound=Orderable)


@dataclass(frozen=True, slots=True)
class RankedList(Generic[KeyT]):
    """One ranked list: (key, score) best first, a higher score being better, and what it counts for (not negative)."""

    weight: float
    hits: Sequence[tuple[KeyT, float]]


def fuse_weighted(ranked_lists: Sequence[RankedList[KeyT]]) -> list[tuple[KeyT, float]]:
    """Every key with the weighted sum of its scaled scores, best first, ties by key.

    A lane's scores are scaled to 0..1 by its least and greatest; if all are equal, or there is but one, they are 1.
    A key that a lane does not have counts 0 there; of a key that stands twice in a lane the best score counts.
    """
    fused: dict[KeyT, float] = {}
    for ranked_list in ranked_lists:
        # Read from the end, so that a key's first and best score is the one that stays.
        best = dict(reversed(ranked_list.hits))
        min_score = min(best.values(), default=0.0)
        span = max(best.values(), default=0.0) - min_score
        weight = ranked_list.weight
        for key, score in best.items():
            scaled = (score - min_score) / span if span else 1.0
            fused[key] = fused.get(key, 0.0) + weight * scaled
    return sort_best_first(fused.items())


def fuse_rrf(ranked_lists: Sequence[RankedList[KeyT]], *, k: float = 60) -> list[tuple[KeyT, float]]:
    """Every key with its weighted reciprocal ranks, best first, ties by key; scores are not looked at, only order.

    The sum over the lanes of weight / (k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009). Of a key
    that stands twice in a lane the first place counts and the others are left out of the ranking.
    """
    fused: dict[KeyT, float] = {}
    for ranked_list in ranked_lists:
        for rank, key in enumerate(dict(ranked_list.hits), start=1):
            fused[key] = fused.get(key, 0.0) + ranked_list.weight / (k + rank)
    return sort_best_first(fused.items())


def sort_best_first(scored: Iterable[tuple[KeyT, float]]) -> list[tuple[KeyT, float]]:
    """By score, ties by key."""
    # Floats sort several times faster than pairs; ties are few, so they are put in order afterwards.
    ranked = sorted(scored, key=itemgetter(1), reverse=True)
    scores = [score for _, score in ranked]
    sorted_until = 0
    for start in compress(count(), map(eq, scores, scores[1:])):
        if start >= sorted_until:
            sorted_until = start + 2
            while sorted_until < len(scores) and scores[sorted_until] == scores[start]:
                sorted_until += 1
            ranked[start:sorted_until] = sorted(ranked[start:sorted_until], key=itemgetter(0))
    return ranked

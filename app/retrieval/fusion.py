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


Key = TypeVar("Key", bound=Orderable)


@dataclass(frozen=True, slots=True)
class Lane(Generic[Key]):
    """One ranked list: (key, score) best first, a higher score being better, and what it counts for (not negative)."""

    weight: float
    hits: Sequence[tuple[Key, float]]


def fuse_weighted(lanes: Sequence[Lane[Key]]) -> list[tuple[Key, float]]:
    """Every key with the weighted sum of its scaled scores, best first, ties by key.

    A lane's scores are scaled to 0..1 by its least and greatest; if all are equal, or there is but one, they are 1.
    A key that a lane does not have counts 0 there; of a key that stands twice in a lane the best score counts.
    """
    fused: dict[Key, float] = {}
    for lane in lanes:
        # Read from the end, so that a key's first and best score is the one that stays.
        best = dict(reversed(lane.hits))
        least = min(best.values(), default=0.0)
        span = max(best.values(), default=0.0) - least
        weight = lane.weight
        for key, score in best.items():
            scaled = (score - least) / span if span else 1.0
            fused[key] = fused.get(key, 0.0) + weight * scaled
    return best_first(fused.items())


def fuse_rrf(lanes: Sequence[Lane[Key]], *, k: float = 60) -> list[tuple[Key, float]]:
    """Every key with its weighted reciprocal ranks, best first, ties by key; scores are not looked at, only order.

    The sum over the lanes of weight / (k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009). Of a key
    that stands twice in a lane the first place counts and the others are left out of the ranking.
    """
    fused: dict[Key, float] = {}
    for lane in lanes:
        for rank, key in enumerate(dict(lane.hits), start=1):
            fused[key] = fused.get(key, 0.0) + lane.weight / (k + rank)
    return best_first(fused.items())


def best_first(scored: Iterable[tuple[Key, float]]) -> list[tuple[Key, float]]:
    """By score, ties by key."""
    # Floats sort several times faster than pairs; ties are few, so they are put in order afterwards.
    ranked = sorted(scored, key=itemgetter(1), reverse=True)
    scores = [score for _, score in ranked]
    done = 0
    for start in compress(count(), map(eq, scores, scores[1:])):
        if start >= done:
            done = start + 2
            while done < len(scores) and scores[done] == scores[start]:
                done += 1
            ranked[start:done] = sorted(ranked[start:done], key=itemgetter(0))
    return ranked

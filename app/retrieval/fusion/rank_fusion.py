"""Fusion of ranked lists into one: by weighted, min-max scaled scores or by reciprocal ranks (pure)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import eq, itemgetter
from typing import Any, Generic, Protocol, TypeVar


class Orderable(Protocol):
    """Type of a key: hashable, and comparable with keys of the same type to break ties."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


KeyT = TypeVar("KeyT", bound=Orderable)


@dataclass(frozen=True, slots=True)
class RankedList(Generic[KeyT]):
    """Ranked list with a weight.

    Attributes:
        weight: Weight of the list in the fusion, not negative.
        hits: Pairs of a key and a score, best first; a higher score is better.
        get_factor: Function that returns a factor of the weight for a key, not negative; None if there is none.
    """

    weight: float
    hits: Sequence[tuple[KeyT, float]]
    get_factor: Callable[[KeyT], float] | None = None

    def get_weight(self, key: KeyT) -> float:
        """Return the weight of a key's score in the fusion."""
        return self.weight if self.get_factor is None else self.weight * self.get_factor(key)


def fuse_weighted(ranked_lists: Sequence[RankedList[KeyT]]) -> list[tuple[KeyT, float]]:
    """Fuse ranked lists by the weighted sum of their min-max scaled scores.

    The scores of each list are scaled to the range from 0 to 1 by its lowest and highest score. If all scores of a list
    are equal, they become 1. A key that is not in a list has the score 0 there. If a list has a key twice, its best
    score counts.

    Args:
        ranked_lists: Lists to fuse.

    Returns:
        All keys with their sums, best first, ties by key.
    """
    fused: dict[KeyT, float] = {}
    for ranked_list in ranked_lists:
        # Reversed, so that the first and best score of a repeated key overwrites the others.
        best = dict(reversed(ranked_list.hits))
        min_score = min(best.values(), default=0.0)
        span = max(best.values(), default=0.0) - min_score
        for key, score in best.items():
            scaled = (score - min_score) / span if span else 1.0
            fused[key] = fused.get(key, 0.0) + ranked_list.get_weight(key) * scaled
    return sort_best_first(fused.items())


def fuse_rrf(ranked_lists: Sequence[RankedList[KeyT]], *, k: float = 60) -> list[tuple[KeyT, float]]:
    """Fuse ranked lists by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

    The score of a key is the sum of weight / (k + rank) over the lists; ranks count from 1. Only the order of a list
    matters, not its scores. If a list has a key twice, its first rank counts.

    Args:
        ranked_lists: Lists to fuse.
        k: Constant of the formula; a higher value makes ranks more equal.

    Returns:
        All keys with their sums, best first, ties by key.
    """
    fused: dict[KeyT, float] = {}
    for ranked_list in ranked_lists:
        for rank, key in enumerate(dict(ranked_list.hits), start=1):
            fused[key] = fused.get(key, 0.0) + ranked_list.get_weight(key) / (k + rank)
    return sort_best_first(fused.items())


def sort_best_first(scored: Iterable[tuple[KeyT, float]]) -> list[tuple[KeyT, float]]:
    """Sort pairs of a key and a score.

    Args:
        scored: Pairs of a key and a score.

    Returns:
        The pairs with the highest score first, ties by key.
    """
    # Floats sort several times faster than pairs. Ties are rare, so they are sorted afterwards.
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

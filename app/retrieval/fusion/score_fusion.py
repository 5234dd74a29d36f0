"""Scaling of scores for their weighted sum: cosines by the span of their model, BM25 scores by their range (pure)."""

from collections.abc import Mapping
from typing import TypeVar

KeyT = TypeVar("KeyT")

# Scores of hits behind others differ by this step, because callers see six digits.
ORDER_STEP = 1e-6


def scale_cosines(cosines: Mapping[KeyT, float], span: float | None) -> dict[KeyT, float]:
    """Scale the cosines of one query and one model to the range from 0 to 1.

    The best cosine becomes 1. A cosine that is lower by ``span`` or more becomes 0. The span is a constant of the
    model, so a small difference of cosines stays small, however similar the found chunks are to each other.

    Args:
        cosines: Cosine of each chunk with the query.
        span: Difference of cosines that counts fully; None for the range of ``cosines``.

    Returns:
        The scaled cosine of each chunk.
    """
    best = max(cosines.values(), default=0.0)
    width = best - min(cosines.values(), default=0.0) if span is None else span
    if width <= 0:
        return dict.fromkeys(cosines, 1.0)
    return {key: max(0.0, 1 - (best - cosine) / width) for key, cosine in cosines.items()}


def scale_range(scores: Mapping[KeyT, float]) -> dict[KeyT, float]:
    """Scale scores to the range from 0 to 1 by the lowest and the highest. If all are equal, they become 1."""
    lowest = min(scores.values(), default=0.0)
    width = max(scores.values(), default=0.0) - lowest
    return {key: (score - lowest) / width if width else 1.0 for key, score in scores.items()}


def place_below(ranked: list[tuple[KeyT, float]], floor: float) -> list[tuple[KeyT, float]]:
    """Give the entries of a ranked list scores below another score; the new scores express only the order.

    Args:
        ranked: Pairs of a key and a score, best first.
        floor: Score that is higher than all new scores.

    Returns:
        The pairs in the same order. Entries with the same rounded score stay equal.
    """
    placed: list[tuple[KeyT, float]] = []
    step, previous = 0, None
    floor = round(floor, 6)  # so that two rounded scores never become equal
    for key, score in ranked:
        rounded = round(score, 6)
        step += rounded != previous
        previous = rounded
        placed.append((key, floor - ORDER_STEP * step))
    return placed

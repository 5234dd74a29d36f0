"""Statistical comparison of times: the Mann-Whitney test (Mann and Whitney 1947) and Holm's correction (1979)."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist


def compute_mann_whitney(first: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of the hypothesis that both samples have the same distribution.

    The function uses the normal approximation with corrections for ties and continuity.
    """
    pooled = [*first, *other]
    counts = Counter(pooled)
    ranks, below = {}, 0
    for value in sorted(counts):
        ranks[value] = below + (counts[value] + 1) / 2
        below += counts[value]
    n, m = len(first), len(other)
    total = n + m
    ties = sum(count**3 - count for count in counts.values())
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1))) if total > 1 else 0.0
    if variance <= 0:
        return 1.0
    u = sum(ranks[value] for value in first) - n * (n + 1) / 2
    z = (abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return min(1.0, 2 * (1 - NormalDist().cdf(z)))


def apply_holm_correction(p_values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's correction for multiple tests."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = worst
    return corrected

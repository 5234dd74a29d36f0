"""Bootstrap confidence intervals (Efron 1979, percentiles) of a mean over queries, and of a paired difference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """Mean with its 95 % bootstrap confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of two configurations on the same queries, with the numbers of better and worse queries."""

    interval: ConfidenceInterval
    better: int
    worse: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval.low > 0 or self.interval.high < 0


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Bootstrap with a number of resamples and a seed. Equal values always give the same interval."""

    resamples: int = 1000
    seed: int = 1

    def compute_interval(self, values: list[float]) -> ConfidenceInterval:
        """Return the mean of values, one per query, with its confidence interval (percentile bootstrap)."""
        sample, generator = np.array(values), np.random.default_rng(self.seed)
        # Compute one resample at a time. All resamples at once would need memory for resamples times queries.
        means = [sample[generator.integers(0, len(sample), len(sample))].mean() for _ in range(self.resamples)]
        low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
        return ConfidenceInterval(float(sample.mean()), float(low), float(high))

    def compute_difference(self, values: Mapping[str, float], baseline: Mapping[str, float]) -> Difference:
        """Return the difference of values to a baseline.

        The comparison is paired by query, so that easy and hard queries do not widen the interval.

        Args:
            values: Values by query.
            baseline: Values of the baseline for the same queries.
        """
        gains = [value - baseline[query] for query, value in values.items()]
        return Difference(
            self.compute_interval(gains), sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        )

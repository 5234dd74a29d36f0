"""Bootstrap confidence intervals (Efron 1979, percentiles) of a mean over queries, and of a paired difference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean, and where it lies in 95 of 100 draws of as many queries."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What one setting has over another on the same queries, and on how many of them it is better or worse."""

    interval: ConfidenceInterval
    better: int
    worse: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.interval.low > 0 or self.interval.high < 0


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How often queries are drawn, and from which seed: the same values always give the same interval."""

    resamples: int = 1000
    seed: int = 1

    def compute_interval(self, values: list[float]) -> ConfidenceInterval:
        """Of the mean of one value a query."""
        sample, generator = np.array(values), np.random.default_rng(self.seed)
        # One draw at a time: all at once would take resamples times queries of memory.
        means = [sample[generator.integers(0, len(sample), len(sample))].mean() for _ in range(self.resamples)]
        low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
        return ConfidenceInterval(float(sample.mean()), float(low), float(high))

    def compute_difference(self, values: Mapping[str, float], baseline: Mapping[str, float]) -> Difference:
        """Drawn by query, so that what makes a query easy or hard for both does not count."""
        gains = [value - baseline[query] for query, value in values.items()]
        return Difference(
            self.compute_interval(gains), sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        )

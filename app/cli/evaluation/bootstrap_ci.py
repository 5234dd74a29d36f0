"""Bootstrap confidence intervals (Efron 1979, percentiles) of a mean over queries, and of a paired difference."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean with its 95 % confidence interval by bootstrap (Efron, 1979)."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two configurations on the same queries, and the numbers of better and worse queries."""

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
        """Return the interval of the mean of one value a query."""
        sample, generator = np.array(values), np.random.default_rng(self.seed)
        # One draw at a time: all at once would take resamples times queries of memory.
        means = [sample[generator.integers(0, len(sample), len(sample))].mean() for _ in range(self.resamples)]
        low, high = np.quantile(means, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
        return ConfidenceInterval(float(sample.mean()), float(low), float(high))

    def compute_difference(self, values: Mapping[str, float], baseline: Mapping[str, float]) -> Difference:
        """Compare paired by query, so that easy and hard queries do not widen the interval."""
        gains = [value - baseline[query] for query, value in values.items()]
        return Difference(
            self.compute_interval(gains), sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
        )

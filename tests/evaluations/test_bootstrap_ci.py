"""Bootstrap intervals: repeatable, of the expected width, and paired."""

import math
import random

import pytest

from app.evaluations.bootstrap_ci import Bootstrap


def test_bootstrap_same_seed_gives_same_interval() -> None:
    rng = random.Random(3)
    values = [rng.random() for _ in range(50)]
    assert Bootstrap(seed=4).compute_interval(values) == Bootstrap(seed=4).compute_interval(values)
    assert Bootstrap(seed=4).compute_interval(values) != Bootstrap(seed=5).compute_interval(values)


@pytest.mark.parametrize("values", [[0.5], [0.25] * 7])
def test_bootstrap_equal_values_have_no_width(values: list[float]) -> None:
    found = Bootstrap(100).compute_interval(values)
    assert found.low == found.mean == found.high == values[0]


def test_bootstrap_width_equals_normal_distribution() -> None:
    rng = random.Random(8)
    values = [rng.random() for _ in range(400)]
    found = Bootstrap(4000).compute_interval(values)
    mean = math.fsum(values) / len(values)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / len(values)
    assert found.mean == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=error / 5)


def test_bootstrap_difference_is_paired() -> None:
    """The queries differ far more than the two settings."""
    rng = random.Random(9)
    baseline = {str(number): rng.random() for number in range(100)}
    better = {query: value + 0.01 for query, value in baseline.items()}
    found = Bootstrap(500).compute_difference(better, baseline)
    assert found.interval.mean == pytest.approx(0.01)
    assert (found.is_significant, found.better, found.worse) == (True, 100, 0)
    assert found.interval.low == pytest.approx(found.interval.high)
    same = Bootstrap(500).compute_difference(dict(reversed(baseline.items())), baseline)
    assert (same.is_significant, same.better, same.worse, same.interval.mean) == (False, 0, 0, 0.0)

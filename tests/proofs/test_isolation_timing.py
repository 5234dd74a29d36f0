"""The statistics of ``make prove NAME=isolation``, compared with known values."""

import pytest

from proofs.isolation.timing import apply_holm_correction, compute_mann_whitney


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [
        # scipy.stats.mannwhitneyu(one, other, method="asymptotic")
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 0.0121857804),
        ([1, 2, 3], [1, 2, 3], 1.0),
        # The same values on both sides: no difference, and ties in every rank.
        ([1, 1, 2, 2], [1, 1, 2, 2], 1.0),
        ([5, 5, 5], [5, 5, 5], 1.0),
        ([], [1.0], 1.0),
    ],
)
def test_mann_whitney_equals_scipy(one: list[float], other: list[float], p: float) -> None:
    assert compute_mann_whitney(one, other) == pytest.approx(p)
    assert compute_mann_whitney(other, one) == pytest.approx(p)


def test_mann_whitney_detects_shift_and_ignores_order() -> None:
    times = [float(number % 17) for number in range(300)]
    assert compute_mann_whitney(times, [time + 3 for time in reversed(times)]) < 1e-6
    assert compute_mann_whitney(times, list(reversed(times))) == pytest.approx(1.0)


def test_holm_correction_equals_known_values() -> None:
    assert apply_holm_correction([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert apply_holm_correction([0.9, 0.8]) == [1.0, 1.0]
    assert apply_holm_correction([]) == []

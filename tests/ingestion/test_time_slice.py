"""Time slices: when a long job yields its place."""

import pytest

from app.ingestion.time_slice import MIN_PREPARATION_MULTIPLE, MIN_WORK_SECONDS, JobPreempted, PreemptionTimer
from harness.manual_clock import ManualClock


def handed_back(stint: PreemptionTimer) -> bool:
    try:
        stint.check_preemption()
    except JobPreempted:
        return True
    return False


def test_time_slice_without_waiting_jobs_does_not_yield() -> None:
    clock = ManualClock(0.0)
    stint = PreemptionTimer(clock=clock)
    for clock.now in (0.0, 1000.0, 100_000.0):
        assert not handed_back(stint)


@pytest.mark.parametrize("preparation", [0.1, 5.0, 60.0])
def test_time_slice_repetition_costs_at_most_a_fourth(preparation: float) -> None:
    """Each slice embeds for at least four times its preparation: the time for a document grows with its length."""
    clock = ManualClock(0.0)
    stint = PreemptionTimer(lambda: True, clock)
    clock.now = preparation
    assert not handed_back(stint)
    enough = max(MIN_WORK_SECONDS, MIN_PREPARATION_MULTIPLE * preparation)
    clock.now = preparation + enough - 0.01
    assert not handed_back(stint)
    clock.now = preparation + enough + 0.01
    assert handed_back(stint)

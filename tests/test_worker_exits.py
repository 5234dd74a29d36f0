"""Messages of serve about a worker that ends again and again."""

import pytest

from app.worker_exits import WorkerExitHistory


def test_worker_exits_are_counted_with_last_reason() -> None:
    ends = WorkerExitHistory()
    assert ends.format_status() is None
    assert ends.record_exit(1, was_unresponsive=False) == "status 1"
    assert ends.record_exit(-9, was_unresponsive=False) == "signal SIGKILL"
    assert ends.format_status() == "restarting: it ended 2 times within ten minutes, the last time by signal SIGKILL"
    assert ends.record_exit(-9, was_unresponsive=True) == "a missing heartbeat"
    assert ends.summary == "3 times within ten minutes, the last time by a missing heartbeat"


@pytest.mark.parametrize(("number", "is_loop"), [(0, False), (1, False), (2, False), (3, True), (9, True)])
def test_three_worker_exits_within_ten_minutes_are_a_loop(number: int, is_loop: bool) -> None:
    ends = WorkerExitHistory()
    for _ in range(number):
        ends.record_exit(1, was_unresponsive=False)
    assert ends.is_crash_loop is is_loop

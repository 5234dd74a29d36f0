"""What serve tells of a worker that ends again and again."""

from app.worker_ends import WorkerEnds


def test_the_ends_are_counted_with_the_last_reason() -> None:
    ends = WorkerEnds()
    assert ends.told() is None
    assert ends.add(1, was_silent=False) == "status 1"
    assert ends.add(-9, was_silent=False) == "signal SIGKILL"
    assert ends.told() == "restarting: it ended 2 times within ten minutes, the last time by signal SIGKILL"
    assert ends.add(-9, was_silent=True) == "it gave no sign of life"

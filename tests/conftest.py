"""The plugins that bring the shared fixtures."""

import gc
import signal

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.s3",
    "tests.fixtures.databases",
    "tests.fixtures.services",
    "tests.fixtures.workshop",
    "tests.unit_tests",
]

# A shell lets its background jobs ignore Ctrl-C, and what ignores it hands that on to every process it starts: so would
# the commands that tests end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare the collected tests each garbage collection: these took a fifth of the time of the unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)

"""Plugins with the shared fixtures."""

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

# A shell lets its background jobs ignore SIGINT, and every child process inherits that. Commands that tests end
# with SIGINT would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, which took a fifth of the time of the unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)

"""The plugins that bring the shared fixtures."""

import signal

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.s3",
    "harness.databases",
    "harness.running_service",
    "tests.fixtures.workshop",
]

# A shell lets its background jobs ignore Ctrl-C, and what ignores it hands that on to every process it starts: so would
# the commands that tests end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""The plugins that bring the shared fixtures."""

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.s3", "tests.fixtures.database", "tests.fixtures.service"]

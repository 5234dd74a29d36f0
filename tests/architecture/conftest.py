"""Clears the cache of syntax trees after the tests of this package."""

from collections.abc import Iterator

import pytest

from tests.architecture.sources import parse


@pytest.fixture(scope="package", autouse=True)
def forget_trees() -> Iterator[None]:
    yield
    parse.cache_clear()

"""A service whose worker knows the tables' owner, and that permits SQL views."""

from collections.abc import Iterator

import pytest

from harness.databases import DatabaseFactory
from harness.running_service import Service, build_settings, run_service


@pytest.fixture(scope="package")
def publishing(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = build_settings(tmp_path_factory.mktemp("publishing"), sql_views={"CARREL_SQL_VIEWS": True})
    with run_service(settings, make_database(), owner=True) as service:
        yield service

"""What most tests of documents work with; a module that needs another workshop makes its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.bootstrap import TenantServices
from app.embedded_postgres import DatabaseUrls
from tests.ingestion.workshop import Workshop, open_workshop


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, data_dir: Path) -> AsyncIterator[Workshop]:
    async with open_workshop(database, data_dir) as opened:
        yield opened


@pytest.fixture
async def services(workshop: Workshop) -> TenantServices:
    return await workshop.new_tenant()

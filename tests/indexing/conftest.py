"""A tenant's knowledge base, ingested into by the test itself."""

from collections.abc import AsyncIterator

import pytest

from app.embedded_postgres import DatabaseUrls
from tests.indexing.library import Library
from tests.ingestion.workshop import Workshop, open_workshop


@pytest.fixture(scope="module")
async def workshop(database: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workshop]:
    async with open_workshop(database, tmp_path_factory.mktemp("data")) as opened:
        yield opened


@pytest.fixture
async def library(workshop: Workshop) -> Library:
    services = await workshop.new_tenant()
    return Library(workshop, services, (await services.knowledge_bases.find("default")).index.id)

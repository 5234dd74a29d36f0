"""A tenant's knowledge base, ingested into by the test itself."""

import pytest

from tests.index_maintenance.library import Library
from tests.ingestion.workshop import Workshop


@pytest.fixture
async def library(workshop: Workshop) -> Library:
    services = await workshop.new_tenant()
    return Library(workshop, services, (await services.knowledge_bases.find("default")).index.id)

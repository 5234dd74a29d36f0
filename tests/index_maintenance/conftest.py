"""A tenant's knowledge base, ingested into by the test itself."""

import pytest

from tests.index_maintenance.indexed_knowledge_base import IndexedKnowledgeBase
from tests.ingestion.workshop import Workshop


@pytest.fixture
async def library(workshop: Workshop) -> IndexedKnowledgeBase:
    services = await workshop.new_tenant()
    return IndexedKnowledgeBase(workshop, services, (await services.knowledge_bases.find("default")).index.id)

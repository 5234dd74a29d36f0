"""A tenant's knowledge base whose documents the test ingests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.index_maintenance.indexed_knowledge_base import IndexedKnowledgeBase
    from tests.ingestion.workshop import Workshop


@pytest.fixture
async def library(workshop: Workshop) -> IndexedKnowledgeBase:
    from tests.index_maintenance.indexed_knowledge_base import IndexedKnowledgeBase

    services = await workshop.new_tenant()
    return IndexedKnowledgeBase(workshop, services, (await services.knowledge_bases.find("default")).index.id)

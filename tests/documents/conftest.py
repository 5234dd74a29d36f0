"""What most tests of documents work with; a module that needs another workshop makes its own."""

import pytest

from app.bootstrap import TenantServices
from tests.ingestion.workshop import Workshop


@pytest.fixture
async def services(workshop: Workshop) -> TenantServices:
    return await workshop.new_tenant()

"""Shared fixture of the tests of documents. A module that needs another ``Workshop`` creates one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from app.bootstrap import TenantServices
    from tests.ingestion.workshop import Workshop


@pytest.fixture
async def services(workshop: Workshop) -> TenantServices:
    return await workshop.new_tenant()

"""A connected database with a tenant."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from app.db.models.control_plane import TenantRow
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.ids import generate_id


@pytest.fixture
async def connected(database: DatabaseUrls) -> AsyncIterator[Database]:
    opened = Database.connect(database.app, pool_size=4)
    yield opened
    await opened.close()


@pytest.fixture
async def tenant_id(connected: Database) -> UUID:
    return await add_tenant(connected)


async def add_tenant(database: Database) -> UUID:
    """Add a tenant without a knowledge base."""
    tenant_id = generate_id()
    async with database.transaction(tenant_id) as session:
        session.add(TenantRow(id=tenant_id, name="a tenant"))
    return tenant_id

"""The meter: counts in memory are written once, and survive an outage of the database."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.db.session import Database, DatabaseUnavailable
from app.embedded_postgres import DatabaseUrls
from app.ids import generate_id
from app.quotas.repository import QuotaRepository
from app.quotas.types import NO_KEY, Usage
from app.quotas.usage_meter import UsageMeter
from tests.db.test_broken_connections import cutting


async def read(database: Database, tenant_id: UUID) -> list[tuple[UUID, Usage]]:
    today = datetime.now(UTC).date()
    async with database.transaction(tenant_id) as session:
        found = await QuotaRepository(session, tenant_id).list_usage_by_key(today - timedelta(days=1), today)
    return [(key, used) for key, _, used in found]


async def test_usage_meters_add_to_one_sum(connected: Database, tenant_id: UUID) -> None:
    key, meters = generate_id(), [UsageMeter(connected) for _ in range(4)]
    for meter in meters:
        for _ in range(25):
            meter.count(tenant_id, key, searches=1, query_tokens=3)
            meter.count(tenant_id, None, uploads=1, documents=1, bytes=10)
    await asyncio.gather(*(meter.write_all() for meter in meters))
    await asyncio.gather(*(meter.close() for meter in meters))
    assert dict(await read(connected, tenant_id)) == {
        key: Usage(uploads=0, documents=0, bytes=0, chunks=0, searches=100, embedding_tokens=300),
        NO_KEY: Usage(uploads=100, documents=100, bytes=1000, chunks=0, searches=0, embedding_tokens=0),
    }


async def test_usage_meter_writes_by_itself_and_on_close(connected: Database, tenant_id: UUID) -> None:
    meter = UsageMeter(connected, write_interval_seconds=0.01)
    meter.count(tenant_id, None, searches=1)
    async with asyncio.timeout(30):
        while not await read(connected, tenant_id):
            await asyncio.sleep(0.01)
    slow = UsageMeter(connected, write_interval_seconds=3600)
    slow.count(tenant_id, None, searches=1)
    for one in (slow, meter, slow):
        await one.close()
    ((_, used),) = await read(connected, tenant_id)
    assert used.searches == 2


async def test_usage_meter_retries_failed_write(database: DatabaseUrls, connected: Database, tenant_id: UUID) -> None:
    async with cutting(database.app, b"usage_day") as url:
        broken = Database.connect(url, pool_size=1)
        meter = UsageMeter(broken, write_interval_seconds=3600)
        meter.count(tenant_id, None, searches=2)
        with pytest.raises(DatabaseUnavailable):
            await meter.write(tenant_id)
        await broken.close()
    meter.count(tenant_id, None, searches=1)
    meter.database = connected  # the database is available again
    await meter.close()
    ((_, used),) = await read(connected, tenant_id)
    assert used.searches == 3


async def test_usage_meter_drops_deleted_tenant(connected: Database, tenant_id: UUID) -> None:
    meter, nobody = UsageMeter(connected, write_interval_seconds=3600), generate_id()
    meter.count(nobody, None, searches=1)
    meter.count(tenant_id, None, searches=1)
    await meter.write_all()
    await meter.close()
    assert await read(connected, nobody) == []
    assert len(await read(connected, tenant_id)) == 1

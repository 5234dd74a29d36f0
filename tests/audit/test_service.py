"""Reading the whole audit in batches."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.audit.service import BATCH_SIZE, AuditService
from app.audit.types import AuditAction, EventFilters
from app.db.session import Database, TenantDatabase
from app.embedded_postgres import DatabaseUrls
from app.ids import generate_id

MANY = 3 * BATCH_SIZE + 1
TENANT, OTHER = generate_id(), generate_id()


@pytest.fixture(scope="module")
async def audit(database: DatabaseUrls, owner: asyncpg.Connection) -> AsyncIterator[AuditService]:
    """Audit service with events of two tenants, seven at each time."""
    for tenant in (TENANT, OTHER):
        await owner.execute(
            "insert into audit_event (tenant_id, created_at, id, action, object_type, object_ids, actor, counts)"
            " select $1, now() - (i / 7) * interval '1 second', gen_random_uuid(),"
            "   case when i % 2 = 0 then 'key.create' else 'key.revoke' end, 'key', '{}', 'service',"
            "   jsonb_build_object('number', i) from generate_series(1, $2::int) i",
            tenant, MANY,
        )  # fmt: skip
    connected = Database.connect(database.app, pool_size=1)
    yield AuditService(TenantDatabase(connected, TENANT))
    await connected.close()


async def test_stream_pages_yields_each_event_once(audit: AuditService) -> None:
    pages = [page async for page in audit.stream_pages(EventFilters(), after=None)]
    assert [len(page) for page in pages] == [BATCH_SIZE, BATCH_SIZE, BATCH_SIZE, 1]
    told = [recorded for page in pages for recorded in page]
    assert {recorded.event.counts["number"] for recorded in told} == set(range(1, MANY + 1))
    places = [(recorded.created_at, recorded.id) for recorded in told]
    assert places == sorted(places, reverse=True)


async def test_stream_pages_with_cursor_and_filter_continues(audit: AuditService) -> None:
    filters = EventFilters(action=AuditAction.KEY_CREATE)
    first = await audit.list_events(filters, after=None, limit=10)
    last = first[-1]
    rest = [one async for page in audit.stream_pages(filters, after=(last.created_at, last.id)) for one in page]
    assert len(first) + len(rest) == MANY // 2
    assert {one.event.action for one in rest} == {AuditAction.KEY_CREATE}
    assert not {one.id for one in first} & {one.id for one in rest}


async def test_has_events_is_true_only_for_tenant_with_events(audit: AuditService) -> None:
    assert await audit.has_events()
    assert not await AuditService(TenantDatabase(audit.db.database, generate_id())).has_events()

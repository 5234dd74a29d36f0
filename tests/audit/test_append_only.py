"""Audit events are append-only: the application role inserts and reads them, whatever it calls."""

from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.models.base import SYSTEM_TENANT
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.ids import generate_id
from tests.isolation.sql import REFUSED, acting, attempt

A, B = generate_id(), generate_id()
WEEK = timedelta(days=7)
ADD = """
insert into audit_event (tenant_id, created_at, id, action, object_type, object_ids, actor)
values ($1, now() - $2::interval, gen_random_uuid(), $3::text, split_part($3::text, '.', 1), array[$1::uuid],
        'service')"""


@pytest.fixture(autouse=True)
async def three_events(owner: asyncpg.Connection) -> None:
    """Audit events: a year-old and a new one of tenant A, and one of the system tenant."""
    await owner.execute("delete from audit_event")
    await owner.execute(ADD, A, timedelta(days=365), "tenant.create")
    await owner.execute(ADD, A, timedelta(), "document.create")
    await owner.execute(ADD, SYSTEM_TENANT, timedelta(), "document.create")


async def left(owner: asyncpg.Connection) -> list[tuple[UUID, str]]:
    rows = await owner.fetch("select tenant_id, action from audit_event order by created_at, tenant_id")
    return [tuple(row) for row in rows]


@pytest.mark.capability("audit-append")
@pytest.mark.parametrize(
    "statement",
    [
        "update audit_event set action = action",
        "update audit_event set actor_name = 'another'",
        "delete from audit_event",
        "truncate audit_event",
        "select * from audit_event for update",
        "insert into audit_event select * from audit_event on conflict (tenant_id, created_at, id)"
        " do update set actor_name = 'another'",
        "merge into audit_event e using audit_event o on e.id = o.id when matched then delete",
        "alter table audit_event disable row level security",
        "drop table audit_event",
        "create policy mine on audit_event to public using (true)",
        "set local role carrel_control",
    ],
)
@pytest.mark.parametrize("tenant", [A, B, SYSTEM_TENANT, None], ids=["a", "b", "system", "nobody"])
async def test_audit_event_cannot_be_changed(
    database: DatabaseUrls, owner: asyncpg.Connection, statement: str, tenant: UUID | None
) -> None:
    async with acting(database.app, tenant) as connection:
        assert isinstance(await attempt(connection, statement), REFUSED)
    assert len(await left(owner)) == 3


@pytest.mark.parametrize(
    ("tenant", "seen"),
    [(A, 2), (B, 0), (SYSTEM_TENANT, 2), (None, 0)],
    ids=["a", "b", "system", "nobody"],
)
async def test_audit_event_is_visible_to_its_tenant_and_operator(
    database: DatabaseUrls, tenant: UUID | None, seen: int
) -> None:
    async with acting(database.app, tenant) as connection:
        assert len(await connection.fetch("select * from audit_event")) == seen
        foreign = await connection.fetchval(
            "select count(*) from audit_event where tenant_id is distinct from $1 and object_type <> 'tenant'", tenant
        )
        assert foreign == 0


@pytest.mark.parametrize("tenant", [B, SYSTEM_TENANT, None], ids=["b", "system", "nobody"])
async def test_audit_event_cannot_be_added_for_another_tenant(database: DatabaseUrls, tenant: UUID | None) -> None:
    async with acting(database.app, tenant) as connection:
        for action in ("document.create", "tenant.create"):
            assert isinstance(await attempt(connection, ADD, A, timedelta(), action), REFUSED)


@pytest.mark.parametrize("keep", [timedelta(), timedelta(days=-400), timedelta(days=8), None])
async def test_remove_old_audit_events_leaves_at_least_a_week(
    database: DatabaseUrls, owner: asyncpg.Connection, keep: timedelta | None
) -> None:
    await owner.execute(ADD, B, WEEK - timedelta(minutes=1), "key.create")
    async with acting(database.app, B) as connection:
        assert await connection.fetchval("select remove_old_audit_events($1, 100)", keep) == 1
        await connection.execute("select set_config('app.tenant_id', '', true)")
    async with acting(database.app, A) as connection:
        assert await connection.fetchval("select remove_old_audit_events($1, null)", keep) == 1


async def test_remove_old_audit_events_removes_expired_events(
    database: DatabaseUrls, owner: asyncpg.Connection
) -> None:
    await owner.execute(ADD, B, timedelta(days=99), "key.create")
    await owner.execute(ADD, B, timedelta(days=101), "key.revoke")
    connected = Database.connect(database.app, pool_size=1)
    system = ControlPlaneDatabase(connected)
    removed = [await system.remove_old_audit_events(retention=timedelta(days=100), limit=1) for _ in range(3)]
    await connected.close()
    assert removed == [1, 1, 0]
    assert await left(owner) == [(B, "key.create"), (A, "document.create"), (SYSTEM_TENANT, "document.create")]

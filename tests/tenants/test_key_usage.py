"""The last use of keys: written soon, then at most once in an interval, and never lost at an orderly end."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from app.audit.types import SERVICE_ACTOR
from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database, Session, TenantDatabase
from app.embedded_postgres import DatabaseUrls
from app.ids import generate_id
from app.jobs.queue import JobQueue
from app.principal import Role
from app.tenants.auth.credential_cache import CredentialCache
from app.tenants.auth.key_usage import KeyUsageRecorder
from app.tenants.service import KeyService, TenantService
from harness.manual_clock import ManualClock

NEVER = 3600.0


@pytest.fixture
async def db(database: DatabaseUrls) -> AsyncIterator[Database]:
    opened = Database.connect(database.app, pool_size=2)
    yield opened
    await opened.close()


async def furnish(_session: Session, _tenant_id: UUID) -> None:
    """Furnish nothing."""


async def new_keys(db: Database, count: int) -> tuple[UUID, list[UUID]]:
    """Create a tenant; return its id and the ids of its keys."""
    system = ControlPlaneDatabase(db)
    known = CredentialCache(system)
    tenants = TenantService(db, system, JobQueue(db, system, 5), known, furnish)
    tenant, first = await tenants.create("a tenant")
    keys = KeyService(TenantDatabase(db, tenant.id), known, SERVICE_ACTOR)
    made = [first, *[await keys.issue("another", Role.READER) for _ in range(count - 1)]]
    return tenant.id, [issued.row.id for issued in made]


async def written(owner: asyncpg.Connection, tenant_id: UUID) -> dict[UUID, datetime]:
    rows = await owner.fetch("select key_id, last_used_at from api_key_use where tenant_id = $1", tenant_id)
    return {row["key_id"]: row["last_used_at"] for row in rows}


async def test_key_use_is_written_in_background(db: Database, owner: asyncpg.Connection) -> None:
    (one, keys), (other, others) = await new_keys(db, 2), await new_keys(db, 1)
    uses = KeyUsageRecorder(db, poll_interval_seconds=0.01)
    before = datetime.now(UTC)
    for tenant_id, key_id in ((one, keys[0]), (one, keys[1]), (other, others[0])):
        uses.record(tenant_id, key_id)
    async with asyncio.timeout(20):
        while set(await written(owner, one)) != set(keys) or not await written(owner, other):
            await asyncio.sleep(0.01)
    assert all(before <= at <= datetime.now(UTC) for at in (await written(owner, one)).values())
    await uses.close()


async def test_key_use_is_written_once_in_an_interval(db: Database, owner: asyncpg.Connection) -> None:
    tenant_id, (key,) = await new_keys(db, 1)
    clock = ManualClock()
    uses = KeyUsageRecorder(db, write_interval_seconds=60, poll_interval_seconds=NEVER, clock=clock)

    async def after(seconds: float) -> datetime:
        clock.now += seconds
        uses.record(tenant_id, key)
        await uses.write()
        return (await written(owner, tenant_id))[key]

    first = await after(0)
    assert await after(59) == first
    second = await after(1)
    assert second > first
    assert await after(30) == second
    await uses.close()
    assert (await written(owner, tenant_id))[key] > second


async def test_key_use_older_time_does_not_replace_newer(db: Database, owner: asyncpg.Connection) -> None:
    tenant_id, (key,) = await new_keys(db, 1)
    later = datetime(2999, 1, 1, tzinfo=UTC)
    await owner.execute("insert into api_key_use values ($1, $2, $3)", tenant_id, key, later)
    uses = KeyUsageRecorder(db, poll_interval_seconds=NEVER)
    uses.record(tenant_id, key)
    await uses.close()
    assert await written(owner, tenant_id) == {key: later}


async def test_key_use_of_unknown_key_is_ignored(db: Database, owner: asyncpg.Connection) -> None:
    (one, keys), (other, others) = await new_keys(db, 2), await new_keys(db, 1)
    await owner.execute("delete from api_key where id = $1", keys[1])
    uses = KeyUsageRecorder(db, poll_interval_seconds=NEVER)
    for tenant_id, key_id in (
        (one, keys[0]),
        (one, keys[1]),
        (one, others[0]),
        (one, generate_id()),
        (generate_id(), keys[0]),
    ):
        uses.record(tenant_id, key_id)
    await uses.close()
    assert set(await written(owner, one)) == {keys[0]}
    assert await written(owner, other) == {}


async def test_key_use_waits_while_database_is_unavailable(
    db: Database, database: DatabaseUrls, owner: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    tenant_id, (key,) = await new_keys(db, 1)
    broken = Database.connect(database.app.rpartition(":")[0] + ":1/nothing", pool_size=1)
    uses = KeyUsageRecorder(broken, poll_interval_seconds=0.01)
    uses.record(tenant_id, key)
    async with asyncio.timeout(20):
        while "key_usage.waiting" not in caplog.messages:
            await asyncio.sleep(0.01)
    assert await written(owner, tenant_id) == {}
    uses.database = db
    async with asyncio.timeout(20):
        while not await written(owner, tenant_id):
            await asyncio.sleep(0.01)
    await uses.close()
    await broken.close()


async def test_key_use_sends_no_notification(db: Database, owner: asyncpg.Connection) -> None:
    """A notification would make every process look up the tenant's keys again."""
    tenant_id, (key,) = await new_keys(db, 1)
    heard: list[str] = []
    await owner.add_listener("carrel_key", lambda *said: heard.append(said[-1]))
    uses = KeyUsageRecorder(db, poll_interval_seconds=NEVER)
    uses.record(tenant_id, key)
    await uses.close()
    await owner.execute("select pg_notify('carrel_key', 'the end')")
    async with asyncio.timeout(20):
        while "the end" not in heard:
            await asyncio.sleep(0.01)
    assert heard == ["the end"]

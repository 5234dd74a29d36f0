"""Cache of credentials: a change ends an entry at once, by a call here or a notification elsewhere; else nothing is
cached.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from app.audit.types import SERVICE_ACTOR
from app.db.control_plane import ControlPlaneDatabase
from app.db.models.control_plane_rows import AuthenticatedKey
from app.db.session import Database, Session, TenantDatabase
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.errors import UnauthorizedError
from app.jobs.queue import JobQueue
from app.principal import Principal, Role
from app.tenants.auth.authentication import Authenticator
from app.tenants.auth.credential_cache import CHANNEL, MAX_KEYS, CredentialCache
from app.tenants.auth.key_usage import KeyUsageRecorder
from app.tenants.auth.sign_in_throttle import SignInThrottle
from app.tenants.service import KeyService, TenantService
from app.tenants.types import IssuedKey, generate_key, hash_key
from harness.manual_clock import ManualClock
from tests.db.test_broken_connections import cutting

# Longer than any test, so that only a notification can end an entry earlier.
LONG = 3600.0
HANG_SECONDS = 30.0
OPERATOR_KEY = "the operator's key of these tests"


@dataclass(frozen=True, slots=True)
class CountingControlPlane(ControlPlaneDatabase):
    """Counts the calls, and can delay an answer."""

    asked: list[bytes] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def authenticate(self, key_hash: bytes) -> AuthenticatedKey | None:
        found = await ControlPlaneDatabase.authenticate(self, key_hash)
        self.asked.append(key_hash)
        await self.answers.wait()
        return found


@dataclass(frozen=True, slots=True)
class AuthenticatingProcess:
    """The authentication of one process."""

    system: CountingControlPlane
    authenticator: Authenticator
    tenants: TenantService

    def keys(self, tenant_id: UUID) -> KeyService:
        return KeyService(
            TenantDatabase(self.system.database, tenant_id), self.authenticator.credential_cache, SERVICE_ACTOR
        )

    async def looks_up(self, key: IssuedKey) -> bool:
        """Return whether the database was queried for the key."""
        before = len(self.system.asked)
        await self.authenticator.authenticate(key.secret)
        return len(self.system.asked) > before

    async def refuses(self, key: IssuedKey) -> bool:
        with suppress(UnauthorizedError):
            await self.authenticator.authenticate(key.secret)
            return False
        return True

    async def wait_until_cached(self, key: IssuedKey) -> None:
        """Wait until the key is cached: the process listens from the first look-up on."""

        async def is_cached() -> bool:
            return not await self.looks_up(key)

        await until(is_cached)


async def until(condition: Callable[[], Awaitable[bool]]) -> float:
    """Wait for a condition; return the seconds."""
    begun = time.monotonic()
    while not await condition():
        assert time.monotonic() < begun + HANG_SECONDS, "it never came true"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun


@asynccontextmanager
async def process(
    url: str, *, seconds: float = LONG, most: int = MAX_KEYS, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[AuthenticatingProcess]:
    async def furnish(_session: Session, _tenant_id: UUID) -> None:
        """Furnish nothing."""

    database = Database.connect(url, pool_size=2)
    system = CountingControlPlane(database)
    system.answers.set()
    known = CredentialCache(system, seconds, most, clock)
    authenticator = Authenticator(known, hash_key(OPERATOR_KEY), KeyUsageRecorder(database), SignInThrottle(20))
    tenants = TenantService(database, system, JobQueue(database, system, 5), known, furnish)
    try:
        yield AuthenticatingProcess(system, authenticator, tenants)
    finally:
        await authenticator.close()
        await database.close()


@pytest.fixture
async def one(database: DatabaseUrls) -> AsyncIterator[AuthenticatingProcess]:
    async with process(database.app) as opened:
        yield opened


@pytest.fixture
async def other(database: DatabaseUrls) -> AsyncIterator[AuthenticatingProcess]:
    """Another process on the same database."""
    async with process(database.app) as opened:
        yield opened


@pytest.fixture
async def key(one: AuthenticatingProcess) -> IssuedKey:
    """The first key of a new tenant."""
    _, issued = await one.tenants.create("a tenant")
    return issued


@pytest.fixture
async def untold(owner: asyncpg.Connection) -> AsyncIterator[None]:
    """Disabled notifications, so that another rule must end the cached key."""
    for table in ("api_key", "tenant"):
        await owner.execute(f"alter table {table} disable trigger {table}_changed")
    yield
    for table in ("api_key", "tenant"):
        await owner.execute(f"alter table {table} enable trigger {table}_changed")


async def test_credential_is_looked_up_once(one: AuthenticatingProcess, key: IssuedKey) -> None:
    await one.wait_until_cached(key)
    for _ in range(5):
        assert not await one.looks_up(key)
    principal = await one.authenticator.authenticate(key.secret)
    own = key.row.id
    assert principal == Principal(key.row.tenant_id, "a tenant", Role.ADMIN, own, "first key", key_lineage_id=own)


async def test_credential_concurrent_requests_look_up_once(one: AuthenticatingProcess, key: IssuedKey) -> None:
    await one.wait_until_cached(key)
    known = one.authenticator.credential_cache
    known._cached.clear()
    before = len(one.system.asked)
    one.system.answers.clear()
    asking = [asyncio.create_task(one.authenticator.authenticate(key.secret)) for _ in range(100)]
    while len(one.system.asked) == before:
        await asyncio.sleep(0.01)
    asking[0].cancel()  # the others do not depend on the first
    one.system.answers.set()
    found = await asyncio.gather(*asking[1:])
    assert {principal.tenant_id for principal in found} == {key.row.tenant_id}
    assert len(one.system.asked) == before + 1
    assert not known._pending


@pytest.mark.usefixtures("untold")
async def test_credential_look_up_before_change_is_not_shared(one: AuthenticatingProcess, key: IssuedKey) -> None:
    issued = await one.keys(key.row.tenant_id).issue("for a moment", Role.READER)
    await one.wait_until_cached(issued)
    one.authenticator.credential_cache._cached.clear()
    before = len(one.system.asked)
    one.system.answers.clear()
    first = asyncio.create_task(one.authenticator.authenticate(issued.secret))
    while len(one.system.asked) == before:
        await asyncio.sleep(0.01)
    one.system.answers.set()
    await one.keys(key.row.tenant_id).revoke(issued.row.id)
    assert await one.refuses(issued)
    await asyncio.gather(first, return_exceptions=True)


@pytest.mark.capability("key-revoke")
@pytest.mark.usefixtures("untold")
async def test_credential_revoked_key_is_refused_by_next_request(one: AuthenticatingProcess, key: IssuedKey) -> None:
    for _ in range(5):
        issued = await one.keys(key.row.tenant_id).issue("for a moment", Role.READER)
        await one.wait_until_cached(issued)
        await one.keys(key.row.tenant_id).revoke(issued.row.id)
        assert await one.refuses(issued)


@pytest.mark.usefixtures("untold")
async def test_credential_deleted_tenant_is_refused_by_next_request(one: AuthenticatingProcess, key: IssuedKey) -> None:
    second = await one.keys(key.row.tenant_id).issue("another", Role.WRITER)
    for issued in (key, second):
        await one.wait_until_cached(issued)
    await one.tenants.delete(key.row.tenant_id)
    assert await one.refuses(key)
    assert await one.refuses(second)


@pytest.mark.usefixtures("untold")
async def test_credential_renamed_tenant_is_renamed_in_next_request(one: AuthenticatingProcess, key: IssuedKey) -> None:
    await one.wait_until_cached(key)
    await one.tenants.update(key.row.tenant_id, name="another name")
    assert (await one.authenticator.authenticate(key.secret)).tenant_name == "another name"


async def test_credential_revocation_reaches_other_process(
    one: AuthenticatingProcess, other: AuthenticatingProcess, key: IssuedKey
) -> None:
    await other.wait_until_cached(key)
    await one.keys(key.row.tenant_id).revoke(key.row.id)
    assert await until(lambda: other.refuses(key)) < LONG / 100


@pytest.mark.parametrize(
    "sql",
    [
        "update api_key set revoked_at = now() where tenant_id = $1",
        "update api_key set expires_at = now() where tenant_id = $1",
        "update api_key set key_hash = 'another' where tenant_id = $1",
        "delete from api_key where tenant_id = $1",
        "update tenant set deleted_at = now() where id = $1",
        "delete from tenant where id = $1",
    ],
)
async def test_credential_every_way_to_end_a_key_notifies(
    other: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection, sql: str
) -> None:
    await other.wait_until_cached(key)
    await owner.execute(sql, key.row.tenant_id)
    await until(lambda: other.refuses(key))


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("update api_key set role = $2 where tenant_id = $1", "reader"),
        ("update api_key set name = $2 where tenant_id = $1", "another name"),
        ("update tenant set name = $2 where id = $1", "another name"),
        ("update api_key set knowledge_base_ids = $2 where tenant_id = $1", [UUID(int=5)]),
    ],
    ids=["role", "key's name", "tenant's name", "narrowed"],
)
async def test_credential_changed_rights_notify(
    other: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection, sql: str, value: object
) -> None:
    await other.wait_until_cached(key)
    before = await other.authenticator.authenticate(key.secret)
    await owner.execute(sql, key.row.tenant_id, value)

    async def changed() -> bool:
        return await other.authenticator.authenticate(key.secret) != before

    await until(changed)
    after = await other.authenticator.authenticate(key.secret)
    seen = (after.role.value, after.key_name, after.tenant_name, list(after.knowledge_base_ids or []))
    assert value in seen


async def test_credential_of_other_tenants_stays_cached(
    one: AuthenticatingProcess, other: AuthenticatingProcess, key: IssuedKey
) -> None:
    _, neighbour = await one.tenants.create("a neighbour")
    await other.wait_until_cached(key)
    await other.wait_until_cached(neighbour)
    await one.keys(key.row.tenant_id).revoke(key.row.id)
    await until(lambda: other.refuses(key))
    assert not await other.looks_up(neighbour)


async def test_credential_look_up_before_change_is_not_cached(one: AuthenticatingProcess, key: IssuedKey) -> None:
    await one.wait_until_cached(await one.keys(key.row.tenant_id).issue("so that it listens", Role.READER))
    one.system.answers.clear()
    before = len(one.system.asked)
    late = asyncio.create_task(one.authenticator.authenticate(key.secret))

    async def answered() -> bool:
        return len(one.system.asked) > before

    await until(answered)
    await one.keys(key.row.tenant_id).revoke(key.row.id)
    one.system.answers.set()
    assert (await late).key_id == key.row.id  # its query came before the change
    assert await one.refuses(key)


async def test_credential_without_notifications_is_looked_up_each_time(
    database: DatabaseUrls, key: IssuedKey, owner: asyncpg.Connection
) -> None:
    async with cutting(database.app, CHANNEL.encode()) as url, process(url) as deaf:
        for _ in range(10):
            assert await deaf.looks_up(key)
            await asyncio.sleep(0.01)
        await owner.execute("update api_key set revoked_at = now() where id = $1", key.row.id)
        assert await deaf.refuses(key)


@pytest.fixture
async def superuser(postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    yield connection
    await connection.close()


@asynccontextmanager
async def without_listeners(superuser: asyncpg.Connection, owner: asyncpg.Connection) -> AsyncIterator[None]:
    """End the listening connections and refuse new ones; the connections of the pools remain."""
    name = await owner.fetchval("select current_database()")
    await superuser.execute(f"alter database {name} allow_connections false")
    try:
        sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1 and query ilike $2"
        assert await superuser.fetchval(sql, name, f"listen%{CHANNEL}%") >= 1
        yield
    finally:
        await superuser.execute(f"alter database {name} allow_connections true")


@pytest.mark.usefixtures("untold")
async def test_credential_cache_is_cleared_when_connection_breaks(
    other: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection, superuser: asyncpg.Connection
) -> None:
    await other.wait_until_cached(key)
    await owner.execute("update api_key set revoked_at = now() where id = $1", key.row.id)
    assert not await other.looks_up(key)  # only the lost connection can end the entry
    async with without_listeners(superuser, owner):
        await until(lambda: other.refuses(key))


async def test_credential_cache_works_again_after_reconnect(
    other: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection, superuser: asyncpg.Connection
) -> None:
    await other.wait_until_cached(key)
    async with without_listeners(superuser, owner):
        await until(lambda: other.looks_up(key))
        assert await other.looks_up(key)
    await other.wait_until_cached(key)
    await owner.execute("update api_key set revoked_at = now() where id = $1", key.row.id)
    await until(lambda: other.refuses(key))


async def test_credential_is_cached_for_limited_time(database: DatabaseUrls, key: IssuedKey) -> None:
    clock = ManualClock()
    async with process(database.app, seconds=5.0, clock=clock) as made:
        await made.wait_until_cached(key)
        clock.now += 4.9
        assert not await made.looks_up(key)
        clock.now += 0.2  # a use does not extend it
        assert await made.looks_up(key)
        assert not await made.looks_up(key)


async def test_credential_is_not_cached_beyond_expiry(
    database: DatabaseUrls, one: AuthenticatingProcess, key: IssuedKey
) -> None:
    clock, ends = ManualClock(), datetime.now(UTC) + timedelta(seconds=LONG / 2)
    issued = await one.keys(key.row.tenant_id).issue("until then", Role.READER, expires_at=ends)
    async with process(database.app, clock=clock) as made:
        await made.wait_until_cached(issued)
        clock.now += LONG / 2 - HANG_SECONDS
        assert not await made.looks_up(issued)
        clock.now += HANG_SECONDS
        assert await made.looks_up(issued)


async def test_credential_expired_key_is_refused(one: AuthenticatingProcess, key: IssuedKey) -> None:
    ends = datetime.now(UTC) + timedelta(seconds=0.5)
    issued = await one.keys(key.row.tenant_id).issue("short", Role.READER, expires_at=ends)
    await until(lambda: one.refuses(issued))
    assert datetime.now(UTC) >= ends


async def test_credential_with_infinite_expiry_is_valid(
    one: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection
) -> None:
    await owner.execute("update api_key set expires_at = 'infinity' where id = $1", key.row.id)
    await one.wait_until_cached(key)


async def test_credential_least_recently_used_is_evicted(
    database: DatabaseUrls, one: AuthenticatingProcess, key: IssuedKey
) -> None:
    first, second, third = [await one.keys(key.row.tenant_id).issue(f"key {n}", Role.READER) for n in range(3)]
    async with process(database.app, most=2) as made:
        await made.wait_until_cached(first)
        await made.wait_until_cached(second)
        assert not await made.looks_up(first)
        assert await made.looks_up(third)
        assert not await made.looks_up(first)
        assert not await made.looks_up(third)
        assert await made.looks_up(second)


async def test_credential_invalid_keys_evict_nothing(database: DatabaseUrls, key: IssuedKey) -> None:
    async with process(database.app, most=1) as made:
        await made.wait_until_cached(key)
        row = key.row
        for text in (generate_key(), generate_key(), "nonsense", ""):
            assert await made.refuses(IssuedKey(row, text))
        assert not await made.looks_up(key)
        before = len(made.system.asked)
        assert await made.refuses(IssuedKey(row, "nonsense"))
        assert (await made.authenticator.authenticate(OPERATOR_KEY)).role is Role.OPERATOR
        assert len(made.system.asked) == before


async def test_credential_foreign_notifications_are_ignored(
    other: AuthenticatingProcess, key: IssuedKey, owner: asyncpg.Connection
) -> None:
    await other.wait_until_cached(key)
    for payload in ("", "nonsense", "x" * 7000):
        await owner.execute("select pg_notify($1, $2)", CHANNEL, payload)
    await owner.execute("update api_key set revoked_at = now() where id = $1", key.row.id)
    await until(lambda: other.refuses(key))

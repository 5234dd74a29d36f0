"""Remains of a SQL view's login: removed with the login, and no deletion waits for its locks."""

import asyncio
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest

from app.db.index_ddl import OwnerDatabase
from app.db.sql_view_ddl import SqlViewManager
from app.embedded_postgres import EmbeddedPostgres
from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.sql_views.platform import ENDED, Published, allow, eventually, publish

PATH = "/v1/knowledge-bases/default/sql-view"
OPEN = ("lo_from_bytea(oid, bytea)", "pg_advisory_lock(bigint)", "pg_try_advisory_lock_shared(bigint)")
HERON = "The heron fishes at dawn."
# Everything that a login can own in a database in which it may create nothing.
LEAVINGS = (
    "set default_transaction_read_only = off",
    "select lo_from_bytea(0, 'abc') from generate_series(1, 1200)",
    "comment on large object {oid} is 'mine'",
    "grant select on large object {oid} to public",
    "alter default privileges grant select on tables to public",
    "alter role current_user set statement_timeout = 0",
)


@pytest.fixture
def tenant(publishing: Service) -> Tenant:
    return allow(publishing.create_tenant())


@pytest.fixture(autouse=True)
async def _open_functions(postgres_server: EmbeddedPostgres, publishing: Service) -> None:
    """Privileges as on a server where no superuser has revoked large objects and advisory locks."""
    database = urlsplit(publishing.urls.owner).path.strip("/")
    connection = await asyncpg.connect(postgres_server.build_url(database))
    for function in OPEN:
        await connection.execute(f"grant execute on function {function} to public")
    await connection.close()


async def leave(published: Published) -> None:
    async with published.connected() as reader:
        await reader.execute(LEAVINGS[0])
        await reader.execute(LEAVINGS[1])
        oid = await reader.fetchval(
            "select oid from pg_largeobject_metadata where lomowner = current_user::regrole limit 1"
        )
        for statement in LEAVINGS[2:]:
            await reader.execute(statement.format(oid=oid))


async def value(url: str, sql: str, *arguments: object) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()


def role_exists(service: Service, published: Published) -> bool:
    sql = "select exists (select from pg_roles where rolname = $1)"
    return bool(asyncio.run(value(service.urls.owner, sql, published.connection["user"])))


def test_revoke_login_with_leavings_is_dropped(publishing: Service, tenant: Tenant) -> None:
    tenant.add_text(HERON)
    published = publish(tenant)
    asyncio.run(leave(published))
    tenant.admin.delete(PATH).raise_for_status()
    eventually(lambda: not role_exists(publishing, published))


def test_delete_tenant_login_with_leavings_finishes(publishing: Service, tenant: Tenant) -> None:
    tenant.add_text(HERON)
    published = publish(tenant)
    asyncio.run(leave(published))
    reply = publishing.operator.delete(f"/v1/tenants/{tenant.id}")
    path = f"/v1/deletions/{reply.headers['carrel-deletion-id']}"
    eventually(lambda: publishing.operator.get(path).json()["finished_at"] is not None)
    assert publishing.operator.get(path).json()["remaining"]["database_roles"] == 0
    assert not role_exists(publishing, published)


@pytest.fixture
async def unreachable(postgres_server: EmbeddedPostgres) -> str:
    """A database of the same server to which the tables' owner may not connect."""
    connection = await asyncpg.connect(postgres_server.build_url("postgres"))
    await connection.execute("create database beyond_reach")
    await connection.execute("revoke connect on database beyond_reach from public")
    await connection.close()
    return "beyond_reach"


def test_delete_tenant_with_role_that_cannot_be_dropped_deletes_data(
    publishing: Service, tenant: Tenant, postgres_server: EmbeddedPostgres, unreachable: str
) -> None:
    """The role owns an object in a database that the service cannot reach: rows and originals are
    deleted without it.
    """
    tenant.add_text(HERON)
    published = publish(tenant)
    login, there = published.connection["user"], postgres_server.build_url(unreachable)
    asyncio.run(value(there, "select lo_from_bytea(0, 'abc')"))
    asyncio.run(value(there, _GIVE.format(login=login)))
    reply = publishing.operator.delete(f"/v1/tenants/{tenant.id}")
    path = f"/v1/deletions/{reply.headers['carrel-deletion-id']}"

    def only_the_role_is_left() -> bool:
        left = publishing.operator.get(path).json()["remaining"]
        return left is not None and {name for name, count in left.items() if count} == {"database_roles"}

    eventually(only_the_role_is_left)
    assert publishing.operator.get(path).json()["finished_at"] is None
    rows = "select (select count(*) from tenant where id = $1) + (select count(*) from sql_view where tenant_id = $1)"
    assert asyncio.run(value(publishing.urls.owner, rows, decode_id("ten", tenant.id))) == 0
    assert asyncio.run(published.shows_nothing())
    assert role_exists(publishing, published)
    # After the object is deleted, the next attempt finishes the receipt.
    asyncio.run(value(there, "select lo_unlink(oid) from pg_largeobject_metadata"))
    soon = "update job set run_at = now() where kind = 'delete_tenant' returning 1"
    asyncio.run(value(publishing.urls.owner, soon))

    def is_closed() -> bool:
        asyncio.run(value(publishing.urls.owner, soon))
        return publishing.operator.get(path).json()["finished_at"] is not None

    eventually(is_closed)
    assert not role_exists(publishing, published)


_GIVE = """
do $$ begin
  execute (select format('alter large object %s owner to {login}', oid) from pg_largeobject_metadata limit 1);
end $$"""


def test_create_tenant_without_permission_is_refused(publishing: Service) -> None:
    tenant = publishing.create_tenant()
    assert publishing.operator.get(f"/v1/tenants/{tenant.id}").json()["sql_views"] is False
    assert_problem(tenant.admin.post(PATH), 409, "sql_views_disabled")
    assert_problem(tenant.admin.patch(f"/v1/tenants/{tenant.id}", json={"sql_views": True}), 403, "forbidden")
    allow(tenant)
    tenant.add_text(HERON)
    published = publish(tenant)
    assert asyncio.run(published.texts()) == {HERON}
    allow(tenant, sql_views=False)
    assert asyncio.run(published.texts()) == set()
    allow(tenant)
    assert asyncio.run(published.texts()) == {HERON}


async def end_overdue(service: Service, login: str) -> int:
    owner = OwnerDatabase(service.urls.owner)
    async with owner.connect() as connection:
        # As if the statement had begun long ago: the limits are arguments of the query.
        await SqlViewManager(connection, owner).terminate_overdue_sessions(
            max_statement_seconds=0, max_transaction_seconds=0
        )
        found: int = await connection.driver.fetchval("select count(*) from pg_stat_activity where usename = $1", login)
        return found


@pytest.mark.parametrize(
    "statements",
    [
        ("set statement_timeout = 0", "select pg_sleep(600)"),
        ("set idle_in_transaction_session_timeout = 0", "begin", "select 1"),
        ("set idle_in_transaction_session_timeout = 0", "listen carrel_document", "begin", "select 1"),
        ("select pg_advisory_lock(7301)",),
        ("select pg_try_advisory_lock_shared(n) from generate_series(1, 50) n",),
    ],
)
def test_end_overdue_session_that_lifts_its_limits_is_ended(
    publishing: Service, tenant: Tenant, statements: tuple[str, ...]
) -> None:
    published = publish(tenant)

    async def overstep() -> None:
        async with published.connected() as reader:
            running = asyncio.create_task(reader.execute("; ".join(statements)))
            while await asyncio.to_thread(lambda: asyncio.run(end_overdue(publishing, published.connection["user"]))):
                await asyncio.sleep(0.1)
            await asyncio.gather(running, return_exceptions=True)
            async with asyncio.timeout(30):
                while not reader.is_closed():  # the server has ended it; the client notices a moment later
                    await asyncio.sleep(0.01)
            with pytest.raises(ENDED):
                await reader.execute("select 1")

    asyncio.run(overstep())


async def test_end_overdue_quiet_session_stays(publishing: Service, tenant: Tenant) -> None:
    published = await asyncio.to_thread(publish, tenant)
    async with published.connected() as reader:
        await reader.fetchval("select 1")
        assert await end_overdue(publishing, published.connection["user"]) == 1
        assert await reader.fetchval("select 1") == 1


def test_listen_names_neither_tenant_nor_document(publishing: Service, tenant: Tenant) -> None:
    published, other = publish(tenant), publishing.create_tenant()
    heard: list[str] = []

    async def listen() -> None:
        async with published.connected() as reader:
            for channel in ("carrel_document", "carrel_key", "carrel_job"):
                await reader.add_listener(channel, lambda *said: heard.append(said[-1]))
            document = await asyncio.to_thread(other.add_text, HERON)
            await asyncio.to_thread(lambda: other.create_client("reader"))
            await asyncio.to_thread(
                lambda: publishing.operator.patch(f"/v1/tenants/{other.id}", json={"name": "renamed"})
            )
            await asyncio.sleep(0.5)
            ids: list[UUID | None] = [decode_id("doc", document["id"]), decode_id("ten", other.id)]
            for one in ids:
                assert one is not None
                assert not any(str(one) in payload or one.hex in payload for payload in heard)
            for statement in ("select secret from notification_secret", "select notification_name('a')"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await reader.execute(statement)

    asyncio.run(listen())
    assert any(payload.endswith("/ready") for payload in heard)

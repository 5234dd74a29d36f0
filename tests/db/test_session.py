"""Sessions: tenant scope, errors, and databases that the service refuses."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from app.db.requirements import MIN_POSTGRES_VERSION, find_unmet_requirement
from app.db.session import Database, DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.db.statements import parse_statement
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from harness.databases import DatabaseFactory, run_sql

TENANT = uuid.uuid4()
SCOPE = text("select current_setting('app.tenant_id', true)")
ADD_TENANT = text("insert into tenant (id, name) values (:id, 'a name')")
COUNT = text("select count(*) from tenant")


@asynccontextmanager
async def connected(url: str, *, pool_size: int = 1) -> AsyncIterator[Database]:
    database = Database.connect(url, pool_size=pool_size)
    try:
        yield database
    finally:
        await database.close()


RENAME = parse_statement("update tenant set name = :name")


async def add_tenant(database: Database) -> uuid.UUID:
    tenant = uuid.uuid4()
    async with database.transaction(tenant) as session:
        await session.execute(ADD_TENANT, {"id": tenant})
    return tenant


async def test_transaction_end_clears_scope(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        async with db.transaction(TENANT) as session:
            assert await session.scalar(SCOPE) == str(TENANT)
        # The same pooled connection, without the transaction that sets the scope again.
        async with db.engine.connect() as connection:
            assert await connection.scalar(SCOPE) == ""
            assert await connection.scalar(COUNT) == 0


async def test_silent_connection_has_timeouts(database: DatabaseUrls) -> None:
    """The database has timeouts after which it closes a silent connection."""
    async with connected(database.app) as db, db.transaction(TENANT) as session:
        told = {}
        for name in ("idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval"):
            row = await session.fetch_row(parse_statement(f"show {name}"), {})
            assert row is not None
            told[name] = row[0]
    assert told == {
        "idle_in_transaction_session_timeout": "1min",
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
    }


async def test_failed_transaction_clears_scope(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        with pytest.raises(ZeroDivisionError):
            async with db.transaction(TENANT):
                raise ZeroDivisionError
        async with db.engine.connect() as connection:
            assert await connection.scalar(SCOPE) == ""


async def test_transaction_without_tenant_sees_no_rows(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        async with db.transaction(None) as session:
            assert await session.scalar(SCOPE) == ""
            assert await session.scalar(COUNT) == 0
        async with TenantDatabase(db, tenant).transaction() as session:
            assert (await session.execute(text("select id from tenant"))).scalars().all() == [tenant]


async def test_transaction_cannot_write_for_another_tenant(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        with pytest.raises(DBAPIError, match="row-level security"):
            async with db.transaction(TENANT) as session:
                await session.execute(ADD_TENANT, {"id": uuid.uuid4()})


async def test_transaction_error_rolls_back_and_propagates(database: DatabaseUrls) -> None:
    tenant = uuid.uuid4()
    async with connected(database.app) as db:

        async def fail_late() -> None:
            async with db.transaction(tenant) as session:
                await session.execute(ADD_TENANT, {"id": tenant})
                assert await session.scalar(COUNT) == 1
                raise KeyError

        with pytest.raises(KeyError):
            await fail_late()
        async with db.transaction(tenant) as session:
            assert await session.scalar(COUNT) == 0


@pytest.mark.parametrize(
    ("sql", "value"),
    [("select 1 / cast(:x as int)", 0), ("select cast(:x as int)", 2**40), ("select cast(:x as text)", "\0")],
)
async def test_statement_error_is_not_an_outage(database: DatabaseUrls, sql: str, value: object) -> None:
    async with connected(database.app) as db:
        with pytest.raises(DBAPIError):
            async with db.transaction(None) as session:
                await session.execute(text(sql), {"x": value})
        await db.check()


async def test_cancelled_transaction_returns_connection(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:

        async def sleep() -> None:
            async with db.transaction(TENANT) as session:
                await session.execute(text("select pg_sleep(60)"))

        for _ in range(4):  # more often than the pool has connections
            task = asyncio.create_task(sleep())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(30):
            await db.check()


async def test_transaction_cancelled_anywhere_leaves_no_transaction(database: DatabaseUrls) -> None:
    async with connected(database.app, pool_size=1) as db:
        tenant = await add_tenant(db)

        async def rename(name: str) -> None:
            async with db.transaction(tenant) as session:
                await session.fetch_rows(RENAME, {"name": name})

        for step in range(25):  # a cancellation at each step of the event loop, and after the last
            task = asyncio.create_task(rename(f"cancelled {step}"))
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            async with db.autocommit() as session:
                # An open transaction would still have its scope.
                assert not await session.scalar(SCOPE)
            async with db.transaction(tenant) as session:
                assert await session.scalar(COUNT) == 1


async def test_driver_statement_runs_in_same_transaction(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        async with db.transaction(tenant, snapshot=True, statement_timeout_seconds=1.5) as session:
            await session.fetch_rows(RENAME, {"name": "by the driver"})
            assert await session.scalar(text("select name from tenant")) == "by the driver"
            found = await session.fetch_row(
                parse_statement("select current_setting('statement_timeout') as t, :a::int + :b::int + :a::int as n"),
                {"a": 1, "b": 10},
            )
            assert found is not None
            assert (found["t"], found["n"]) == ("1500ms", 12)
            isolation = await session.fetch_row(parse_statement("show transaction_isolation"), {})
            assert isolation is not None
            assert isolation[0] == "repeatable read"


async def test_driver_errors_equal_session_errors_without_values(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        with pytest.raises(IntegrityError) as raised:
            async with db.transaction(tenant) as session:
                await session.fetch_rows(
                    parse_statement("insert into tenant (id, name) values (:id, :name)"),
                    {"id": tenant, "name": "planted"},
                )
        assert "planted" not in str(raised.value)
        with pytest.raises(DBAPIError):
            async with db.transaction(tenant) as session:
                await session.fetch_rows(parse_statement("select 1 / :x::int"), {"x": 0})
        with pytest.raises(DBAPIError):
            async with db.transaction(tenant) as session:
                await session.fetch_rows(parse_statement("select :x::int"), {"x": "no number"})


async def kill_connections(postgres: EmbeddedPostgres, url: str) -> None:
    superuser = await asyncpg.connect(postgres.build_url(url.rpartition("/")[2]))
    await superuser.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    await superuser.close()


async def test_transaction_killed_connections_are_a_passing_outage(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    urls = await asyncio.to_thread(make_database)
    async with connected(urls.app, pool_size=3) as db:
        tenant = await add_tenant(db)

        async def lose_it() -> None:
            async with db.transaction(tenant) as session:
                await session.scalar(COUNT)
                await kill_connections(postgres_server, urls.app)
                await session.scalar(COUNT)

        with pytest.raises(DatabaseUnavailable):
            await lose_it()
        async with db.transaction(tenant) as session:
            assert await session.scalar(COUNT) == 1

        async with db.transaction(None), db.transaction(None), db.transaction(None):
            pass
        # Broken idle connections are replaced without an error.
        await kill_connections(postgres_server, urls.app)
        for _ in range(4):
            await db.check()


async def test_missing_server_is_outage() -> None:
    async with connected("postgresql://nobody:secret@127.0.0.1:1/nothing") as db:
        with pytest.raises(DatabaseUnavailable) as raised:
            await db.check()
        assert "secret" not in str(raised.value)


async def test_server_without_free_connections_is_outage(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    urls = await asyncio.to_thread(make_database)
    name = urls.app.rpartition("/")[2]
    superuser = postgres_server.build_url("postgres")
    await asyncio.to_thread(run_sql, superuser, f"alter database {name} connection limit 0")
    async with connected(urls.app) as db:
        with pytest.raises(DatabaseUnavailable):
            await db.check()
        await asyncio.to_thread(run_sql, superuser, f"alter database {name} connection limit -1")
        await db.check()


async def rename_nothing(database: Database) -> None:
    async with database.autocommit() as session:
        await session.fetch_rows(RENAME, {"name": "another name"})


@pytest.mark.parametrize("write", [add_tenant, rename_nothing])
async def test_read_only_server_is_outage_and_connection_is_dropped(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, write: Callable[[Database], Awaitable[object]]
) -> None:
    """A server after a failover, or one that its provider has made read-only because its disk is full.

    A connection to the former primary still answers; only a new connection reaches the present primary.
    """
    urls = await asyncio.to_thread(make_database)
    name = urls.app.rpartition("/")[2]
    setting = f"alter database {name} set default_transaction_read_only to"
    superuser = postgres_server.build_url("postgres")
    await asyncio.to_thread(run_sql, superuser, f"{setting} on")
    async with connected(urls.app) as db:
        with pytest.raises(DatabaseUnavailable, match="accepts no writes at present"):
            await write(db)
        await db.check()
        await asyncio.to_thread(run_sql, superuser, f"{setting} off")
        with suppress(DatabaseUnavailable):  # the connection of the check
            await write(db)
        await write(db)


async def test_transaction_full_pool_is_outage(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        db.engine.pool._timeout = 0.05  # type: ignore[attr-defined]  # ten seconds is long for a test
        async with db.transaction(None), db.transaction(None):
            with pytest.raises(DatabaseUnavailable):
                await db.check()
        await db.check()


async def test_wrong_password_is_refused_without_secret(database: DatabaseUrls) -> None:
    url = make_url(database.app).set(password="wrong-password").render_as_string(hide_password=False)
    async with connected(url) as db:
        with pytest.raises(DatabaseRefused, match="authentication failed") as raised:
            await db.check()
        assert "wrong-password" not in str(raised.value)


Login = Callable[..., str]


@pytest.fixture(scope="module")
def login(postgres_server: EmbeddedPostgres, database: DatabaseUrls) -> Login:
    """Factory of logins with attributes and grants; it returns the login's URL."""
    counter = iter(range(1, 100))
    superuser = postgres_server.build_url("postgres")
    address = database.app.partition("@")[2]

    def make(attributes: str, *grants: str) -> str:
        name = f"login_{next(counter)}"
        memberships = (
            f"grant {role} to {name} {options}" for role, _, options in (grant.partition(" ") for grant in grants)
        )
        run_sql(superuser, f"create role {name} login password 'secret' {attributes}", *memberships)
        return f"postgresql://{name}:secret@{address}"

    return make


async def refused(url: str) -> str:
    async with connected(url) as db:
        with pytest.raises(DatabaseRefused) as raised:
            await db.check()
    return str(raised.value)


@pytest.mark.parametrize(
    ("attributes", "grants"),
    [
        ("superuser", ["carrel_app"]),
        ("bypassrls", ["carrel_app"]),
        ("noinherit", ["carrel_app", "carrel_owner with inherit false, set true"]),
        ("", ["carrel_app", "carrel_search"]),
        ("", ["carrel_app", "carrel_control"]),
        ("", ["carrel_app", "postgres"]),
    ],
)
async def test_role_that_bypasses_row_level_security_is_refused(
    login: Login, attributes: str, grants: list[str]
) -> None:
    url = await asyncio.to_thread(login, attributes, *grants)
    assert "use the plain role" in await refused(url)


async def test_owner_role_is_refused(database: DatabaseUrls) -> None:
    assert "use the plain role" in await refused(database.owner)


async def test_role_that_owns_a_table_is_refused(
    login: Login, postgres_server: EmbeddedPostgres, make_database: DatabaseFactory
) -> None:
    urls = await asyncio.to_thread(make_database)
    name = urls.app.rpartition("/")[2]
    url = (await asyncio.to_thread(login, "", "carrel_app")).rpartition("/")[0] + f"/{name}"
    async with connected(url) as db:
        await db.check()
    role = url.partition("://")[2].partition(":")[0]
    table = ("create table public.of_its_own (id int)", f"alter table public.of_its_own owner to {role}")
    await asyncio.to_thread(run_sql, postgres_server.build_url(name), *table)
    assert "use the plain role" in await refused(url)


async def test_role_without_carrel_app_is_refused(login: Login) -> None:
    assert "run carrel migrate" in await refused(await asyncio.to_thread(login, ""))
    inherits_nothing = await asyncio.to_thread(login, "", "carrel_app with inherit false")
    assert "run carrel migrate" in await refused(inherits_nothing)


async def test_empty_database_is_refused(make_empty_database: DatabaseFactory) -> None:
    urls = await asyncio.to_thread(make_empty_database)
    assert "run carrel migrate" in await refused(urls.app)


def test_old_server_or_extension_is_refused() -> None:
    fit: dict[str, Any] = {"version": MIN_POSTGRES_VERSION, "pgvector": [0, 8, 0], "privileged": False}
    fit |= {"migrated": True, "earlier": False}
    assert find_unmet_requirement("plain", **fit) is None
    assert (
        find_unmet_requirement("plain", **{**fit, "version": 150012})
        == "Postgres 16 or newer is needed; this one is 15"
    )
    assert "pgvector 0.8" in (find_unmet_requirement("plain", **{**fit, "pgvector": [0, 7, 4]}) or "")
    assert "pgvector 0.8" in (find_unmet_requirement("plain", **{**fit, "pgvector": [0]}) or "")


async def test_database_check_of_valid_database_succeeds(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        await db.check()


async def test_autocommit_statement_sees_no_tenant(database: DatabaseUrls) -> None:
    tenant = uuid.uuid4()
    async with connected(database.app) as db:
        async with db.transaction(tenant) as session:
            await session.execute(text("insert into tenant (id, name) values (:id, 'single')"), {"id": tenant})
        for _ in range(3):
            async with db.autocommit() as session:
                assert await session.scalar(text("select count(*) from tenant")) == 0
        async with db.transaction(tenant) as session:  # a new transaction has its scope again
            assert await session.scalar(text("select count(*) from tenant")) == 1


async def test_two_transactions_share_one_snapshot(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        name = parse_statement("select name from tenant")
        async with db.transaction(tenant, snapshot=True) as first:
            before = await first.fetch_row(name, {})
            moment = await first.export_snapshot()
            async with db.transaction(tenant) as session:
                await session.fetch_rows(RENAME, {"name": "renamed meanwhile"})
            async with db.transaction(tenant, snapshot=moment, statement_timeout_seconds=1.5) as second:
                assert await second.fetch_row(name, {}) == before
                limit = await second.fetch_row(parse_statement("show statement_timeout"), {})
                assert limit is not None
                assert limit[0] == "1500ms"
            async with db.transaction(tenant, snapshot=True) as third:
                assert await third.fetch_row(name, {}) != before
        with pytest.raises(DatabaseUnavailable):  # the transaction has ended
            async with db.transaction(tenant, snapshot=moment):
                pass
        async with db.transaction(tenant) as session:
            assert (await session.fetch_row(name, {})) != before


async def test_schema_without_last_migration_is_refused(make_database: DatabaseFactory) -> None:
    urls = await asyncio.to_thread(make_database)
    async with connected(urls.app) as db:
        await db.check()
        for change in ("alter table document drop metadata_revision", "drop table document cascade"):
            await asyncio.to_thread(run_sql, urls.owner, change)
            with pytest.raises(DatabaseRefused, match="run carrel migrate"):
                await db.check()

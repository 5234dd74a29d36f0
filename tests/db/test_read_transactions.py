"""Read-only transactions: their scope, their end without waiting, and their errors."""

import asyncio
import gc
import logging
import uuid
from contextlib import suppress

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from app.db.driver import DriverReader
from app.db.session import Database, DatabaseRefused, DatabaseUnavailable, TenantDatabase
from app.db.statements import parse_statement
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from harness.databases import DatabaseFactory, run_sql
from harness.protocol_servers.slow_link import SlowLink
from harness.wait_until import wait_until
from tests.db.test_broken_connections import QUESTION, cutting
from tests.db.test_session import RENAME, add_tenant, connected, kill_connections

NAME = parse_statement("select name from tenant")
SCOPE = parse_statement("select current_setting('app.tenant_id', true)")
LEFT_OPEN = parse_statement("""
select count(*) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'""")
SLEEP = parse_statement("select pg_sleep(60)")


async def name(reader: DriverReader) -> str | None:
    row = await reader.fetch_row(NAME, {})
    return None if row is None else str(row[0])


async def test_read_transaction_sees_only_its_tenant(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant, other = await add_tenant(db), await add_tenant(db)
        async with db.transaction(other) as session:
            await session.fetch_rows(RENAME, {"name": "another"})
        async with TenantDatabase(db, tenant).read_transaction() as reader:
            assert await name(reader) == "a name"
        async with TenantDatabase(db, other).read_transaction(snapshot=True, statement_timeout_seconds=1.5) as reader:
            assert await name(reader) == "another"
            assert [row[0] for row in await reader.fetch_rows(parse_statement("show statement_timeout"), {})] == [
                "1500ms"
            ]
            assert [row[0] for row in await reader.fetch_rows(parse_statement("show transaction_isolation"), {})] == [
                "repeatable read"
            ]
        for _ in range(3):
            async with db.autocommit() as session:
                assert [row[0] for row in await session.fetch_rows(SCOPE, {})] == [""]


async def test_read_transaction_cannot_write(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        with pytest.raises(DBAPIError, match="read-only"):
            async with db.read_transaction(tenant) as reader:
                await reader.fetch_rows(RENAME, {"name": "renamed"})
        async with db.read_transaction(tenant) as reader:
            assert await name(reader) == "a name"


async def test_read_transaction_caller_does_not_wait_for_its_end(database: DatabaseUrls) -> None:
    """The caller does not wait even if the database hangs; the connection returns to the pool later."""
    with SlowLink(database.app) as link:
        async with connected(link.url) as slow:
            tenant = await add_tenant(slow)
            async with asyncio.timeout(30), slow.read_transaction(tenant) as reader:
                assert await name(reader) == "a name"
                link.stall()
            assert slow.returning_tasks, "it was waited for"
            link.release()
            await wait_until(lambda: not slow.returning_tasks)
            assert slow.engine.sync_engine.pool.checkedin() == 1  # type: ignore[attr-defined]
            async with slow.read_transaction(tenant) as reader:
                assert await name(reader) == "a name"


async def test_close_waits_for_returning_connections(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        async with db.read_transaction(await add_tenant(db)):
            pass
        assert db.returning_tasks
        await db.close()
        assert not db.returning_tasks


async def test_read_transaction_cancelled_anywhere_leaves_no_transaction(database: DatabaseUrls) -> None:
    async with connected(database.app, pool_size=1) as db:
        tenant = await add_tenant(db)

        async def read() -> None:
            async with db.read_transaction(tenant, snapshot=True) as reader:
                await name(reader)

        for step in range(40):  # a cancellation at each step of the event loop
            task = asyncio.create_task(read())
            if step < 10:
                for _ in range(step):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(0.0002 * (step - 9))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await wait_until(lambda: not db.returning_tasks)
            async with db.autocommit() as session:
                assert [row[0] for row in await session.fetch_rows(LEFT_OPEN, {})] == [0]
                assert [row[0] for row in await session.fetch_rows(SCOPE, {})] in ([""], [None])
            async with db.read_transaction(tenant) as reader:
                assert await name(reader) == "a name"


async def test_read_transaction_cancelled_caller_does_not_wait_for_rollback(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)

        async def sleep() -> None:
            async with db.read_transaction(tenant) as reader:
                await reader.fetch_rows(SLEEP, {})

        for _ in range(4):  # more often than the pool has connections
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await sleep()
        await wait_until(lambda: not db.returning_tasks)
        async with db.read_transaction(tenant) as reader:
            assert await name(reader) == "a name"


async def test_read_transaction_error_propagates_and_connection_is_reusable(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        for _ in range(4):
            with pytest.raises(DBAPIError) as raised:
                async with db.read_transaction(tenant) as reader:
                    await reader.fetch_rows(parse_statement("select 1 / :x::int"), {"x": 0})
            assert not isinstance(raised.value, DatabaseUnavailable)
            with pytest.raises(KeyError):
                async with db.read_transaction(tenant):
                    raise KeyError
            assert not db.returning_tasks  # an error may mean a broken connection, so the rollback is awaited
        async with db.read_transaction(tenant) as reader:
            assert await name(reader) == "a name"


async def test_read_transaction_killed_connections_are_a_passing_outage(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    urls = await asyncio.to_thread(make_database)
    async with connected(urls.app, pool_size=6) as db:
        tenant = await add_tenant(db)

        async def lose_it() -> None:
            async with db.read_transaction(tenant) as reader:
                await kill_connections(postgres_server, urls.app)
                await name(reader)

        async def lose_it_unnoticed() -> str | None:
            async with db.read_transaction(tenant) as reader:
                read = await name(reader)
                await kill_connections(postgres_server, urls.app)
            return read

        with pytest.raises(DatabaseUnavailable):
            await lose_it()
        # A connection whose opening was cancelled in an earlier test leaves a failed future in asyncpg. asyncio
        # logs it at garbage collection, which must not happen during this test.
        gc.collect()
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert await lose_it_unnoticed() == "a name"  # the value was read before
            await wait_until(lambda: not db.returning_tasks)
        # The service of other tests may work in the same process.
        assert [record for record in caplog.records if record.name.startswith(("app.db", "sqlalchemy"))] == []
        async with db.read_transaction(tenant), db.read_transaction(tenant), db.read_transaction(tenant):
            pass
        await wait_until(lambda: not db.returning_tasks)
        # Broken idle connections are replaced without an error.
        await kill_connections(postgres_server, urls.app)
        for _ in range(4):
            async with db.read_transaction(tenant) as reader:
                assert await name(reader) == "a name"


async def outage(url: str) -> str:
    async with connected(url) as db:
        with pytest.raises((DatabaseUnavailable, DatabaseRefused)) as raised:
            async with db.read_transaction(uuid.uuid4()):
                raise AssertionError("it has begun")
    return f"{raised.type.__name__}: {raised.value}"


async def test_read_transaction_connection_errors_equal_session_errors(
    database: DatabaseUrls, make_database: DatabaseFactory, postgres_server: EmbeddedPostgres
) -> None:
    assert (await outage("postgresql://nobody:secret@127.0.0.1:1/nothing")).startswith("DatabaseUnavailable")
    wrong = make_url(database.app).set(password="wrong-password").render_as_string(hide_password=False)
    told = await outage(wrong)
    assert told.startswith("DatabaseRefused")
    assert "authentication failed" in told
    assert "wrong-password" not in told
    async with cutting(database.app, QUESTION) as url:
        assert (await outage(url)).startswith("DatabaseUnavailable")
    urls = await asyncio.to_thread(make_database)
    limit = f"alter database {urls.app.rpartition('/')[2]} connection limit 0"
    await asyncio.to_thread(run_sql, postgres_server.build_url("postgres"), limit)
    assert (await outage(urls.app)).startswith("DatabaseUnavailable")


async def test_read_transaction_full_pool_is_outage(database: DatabaseUrls) -> None:
    async with connected(database.app) as db:
        tenant = await add_tenant(db)
        db.engine.pool._timeout = 0.05  # type: ignore[attr-defined]  # ten seconds is long for a test
        db.pool_shares.timeout_seconds = 0.05
        async with db.read_transaction(tenant), db.read_transaction(tenant):
            with pytest.raises(DatabaseUnavailable):
                async with db.read_transaction(tenant):
                    raise AssertionError("it has begun")
        async with db.read_transaction(tenant) as reader:
            assert await name(reader) == "a name"


async def test_concurrent_read_transactions_use_at_most_pool_size(database: DatabaseUrls) -> None:
    async def read(db: Database, tenant: uuid.UUID) -> str | None:
        async with db.read_transaction(tenant) as reader:
            return await name(reader)

    async with connected(database.app, pool_size=2) as db:
        tenant = await add_tenant(db)
        assert set(await asyncio.gather(*(read(db, tenant) for _ in range(100)))) == {"a name"}
        await wait_until(lambda: not db.returning_tasks)
        assert db.engine.sync_engine.pool.checkedout() == 0  # type: ignore[attr-defined]

"""Locks out of reach of a SQL view's login: claims, counting, index builds and migrations continue while it holds
locks.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.index_ddl import OwnerDatabase
from app.db.migrate import migrate_database
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.ids import generate_id
from app.jobs.queue import JobQueue
from app.principal import Quotas
from app.quotas.service import set_quotas
from harness.databases import run_sql

HANG_SECONDS = 20
LOGIN = "carrel_sql_view_of_a_test"
# Every lock number that the service has ever used.
NUMBERS = """
select pg_advisory_lock(7300), pg_advisory_lock(7301), pg_advisory_lock(7302), pg_advisory_lock(7303),
       pg_advisory_lock(7302, hashtext($1)), pg_advisory_lock(7303, hashtext($1))"""


@pytest.fixture
async def stranger(database: DatabaseUrls, postgres_server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    """Connection of a login that may only connect, like a SQL view's login."""
    server = postgres_server.build_url("postgres")
    await asyncio.to_thread(run_sql, server, f"create role {LOGIN} login password 'secret'")
    # A server on which no superuser has revoked advisory locks.
    here = postgres_server.build_url(urlsplit(database.app).path.strip("/"))
    for function in ("pg_advisory_lock(bigint)", "pg_advisory_lock(int, int)"):
        await asyncio.to_thread(run_sql, here, f"grant execute on function {function} to public")
    connection = await asyncpg.connect(f"postgresql://{LOGIN}:secret@" + database.app.partition("@")[2])
    yield connection
    await connection.close()
    await asyncio.to_thread(run_sql, server, f"drop role {LOGIN}")


async def test_login_with_advisory_locks_blocks_no_work(
    database: DatabaseUrls, owner: asyncpg.Connection, stranger: asyncpg.Connection
) -> None:
    tenant = generate_id()
    await owner.execute("delete from job where every is null")
    await owner.execute("insert into tenant (id, name) values ($1, 'x')", tenant)
    await stranger.execute("set default_transaction_read_only = off")
    await stranger.fetch(NUMBERS, str(tenant))
    pool = Database.connect(database.app, pool_size=2)
    queue = JobQueue(pool, ControlPlaneDatabase(pool), 3)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            async with pool.transaction(tenant) as session:
                await set_quotas(session, tenant, Quotas(documents=5))
                await queue.enqueue(session, "backfill_metadata", tenant_id=tenant)
            job = await queue.claim("w", timedelta(seconds=30), tenant_concurrency=2)
            async with OwnerDatabase(database.owner).connect() as builder:
                assert await builder.try_lock()
            await migrate_database(database.owner, database.app)
    finally:
        await pool.close()
    assert job is not None
    assert job.tenant_id == tenant
    await owner.execute("delete from tenant where id = $1", tenant)


@pytest.mark.parametrize("table", ["claim_lock", "index_build_lock", "alembic_version"])
async def test_login_cannot_lock_tables(stranger: asyncpg.Connection, table: str) -> None:
    for mode in ("access share", "share update exclusive", "exclusive"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with stranger.transaction():
                await stranger.execute(f"lock table {table} in {mode} mode")


async def test_login_cannot_connect_to_postgres_database(
    stranger: asyncpg.Connection, postgres_server: EmbeddedPostgres, database: DatabaseUrls
) -> None:
    del stranger
    url = postgres_server.build_url("postgres")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await asyncpg.connect(f"postgresql://{LOGIN}:secret@" + url.partition("@")[2])


async def test_only_one_process_builds_indexes(database: DatabaseUrls) -> None:
    owner = OwnerDatabase(database.owner)
    async with owner.connect() as one, owner.connect() as other:
        assert await one.try_lock()
        assert await one.try_lock()
        assert not await other.try_lock()
    async with owner.connect() as next_one:
        assert await next_one.try_lock()

"""Broken connections: an outage while they open, and replaced in the pool without an error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import pytest
from sqlalchemy import make_url

from app.db.index_ddl import MaintenanceFailed, OwnerDatabase
from app.db.session import Database, DatabaseUnavailable
from app.db.statements import parse_statement
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from harness.databases import DatabaseFactory
from harness.protocol_servers.slow_link import SlowLink
from tests.db.test_session import connected, kill_connections

# asyncpg's query for a type's codec, which is the first query on a new connection.
QUESTION = b"pg_type"
ONE = parse_statement("select 1")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, until: bytes | None) -> None:
    """Forward the input; close the connection instead of forwarding ``until``."""
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            if until is not None and until in piece:
                break
            writer.write(piece)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def cutting(url: str, until: bytes) -> AsyncIterator[str]:
    """Run a proxy of the database that closes a connection at certain bytes; yield the proxy's URL."""
    place = make_url(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(place.host, place.port)
        back = asyncio.create_task(_copy(inner, writer, until=None))
        await _copy(reader, outer, until=until)
        await back

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield place.set(port=port).render_as_string(hide_password=False)


async def test_connection_broken_during_setup_is_outage(database: DatabaseUrls) -> None:
    async with cutting(database.app, QUESTION) as url:
        broken = Database.connect(url, pool_size=1)
        try:
            with pytest.raises(DatabaseUnavailable):
                async with broken.transaction(None):
                    raise AssertionError("it was not cut off")
        finally:
            await broken.close()


async def give_up(database: Database, link: SlowLink) -> None:
    """Send a query, and cancel it immediately."""
    async with asyncio.timeout(None) as patience, database.transaction(None) as session:
        link.stall()
        patience.reschedule(asyncio.get_running_loop().time())
        await session.fetch_rows(ONE, {})


async def test_cancelled_transaction_does_not_wait_for_rollback(database: DatabaseUrls) -> None:
    with SlowLink(database.app) as link:
        slow = Database.connect(link.url, pool_size=1)
        try:
            with pytest.raises(TimeoutError):
                await give_up(slow, link)
            assert slow.returning_tasks, "it was waited for"
            link.release()
            async with slow.transaction(None) as session:
                assert [row[0] for row in await session.fetch_rows(ONE, {})] == [1]
        finally:
            await slow.close()


async def kill_unseen(postgres: EmbeddedPostgres, url: str, *, steps: int) -> None:
    """Kill the connections while the event loop is blocked; then run the loop for ``steps`` steps."""
    killer = Thread(target=asyncio.run, args=(kill_connections(postgres, url),))
    killer.start()
    killer.join()
    for _ in range(steps):
        await asyncio.sleep(0)


@pytest.mark.parametrize("steps", range(6))
async def test_broken_pooled_connection_is_replaced_at_any_moment(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, steps: int
) -> None:
    """Each moment includes the one after the server's last message and before the end of the stream."""
    urls = await asyncio.to_thread(make_database)
    async with connected(urls.app) as db:
        async with db.transaction(None):
            pass
        await kill_unseen(postgres_server, urls.app, steps=steps)
        async with db.transaction(None) as session:
            assert [row[0] for row in await session.fetch_rows(ONE, {})] == [1]


@pytest.mark.parametrize("steps", range(6))
async def test_broken_owner_connection_is_maintenance_failure(
    make_database: DatabaseFactory, postgres_server: EmbeddedPostgres, steps: int
) -> None:
    urls = await asyncio.to_thread(make_database)

    async def work() -> None:
        async with OwnerDatabase(urls.owner).connect() as owner:
            await kill_unseen(postgres_server, urls.app, steps=steps)
            await owner.try_lock()

    with pytest.raises(MaintenanceFailed):
        await work()

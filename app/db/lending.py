"""A connection of the pool for as long as somebody waits for the database, and its way back when nobody does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.util import greenlet_spawn

# Of a connection whose answer nobody has waited for.
ROLLBACK_SECONDS = 5.0
Returning = set[asyncio.Task[None]]
GiveBack = Callable[[], None]


@asynccontextmanager
async def lent(engine: AsyncEngine, returning: Returning, give_back: GiveBack) -> AsyncIterator[AsyncConnection]:
    """Whoever is cancelled, having waited for too long, does not wait for the rollback instead.

    ``returning`` holds those that are on their way back; ``give_back`` is called when the connection is back.
    """
    waits = True
    try:
        connection = await engine.connect()
    except BaseException:
        give_back()
        raise
    try:
        yield connection
    except asyncio.CancelledError:
        waits = False
        raise
    finally:
        closing = _sent_back(connection.close(), returning, give_back)
        if waits:
            await asyncio.shield(closing)


@asynccontextmanager
async def borrowed(
    engine: AsyncEngine, returning: Returning, give_back: GiveBack
) -> AsyncIterator[PoolProxiedConnection]:
    """For reading alone, and so without a session: whoever has read does not wait for the commit either."""
    waits, commits = True, False
    try:
        pooled = await _pooled(engine)
    except BaseException:
        give_back()
        raise
    try:
        yield pooled
        waits, commits = False, True
    except asyncio.CancelledError:
        waits = False
        raise
    finally:
        closing = _sent_back(_given_back(pooled, commits=commits), returning, give_back)
        if waits:
            await asyncio.shield(closing)


async def _pooled(engine: AsyncEngine) -> PoolProxiedConnection:
    """What goes wrong is told as where a session is opened. Raises DBAPIError."""
    try:
        return await engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as exc:
        base = engine.dialect.loaded_dbapi.Error
        raise DBAPIError.instance(None, None, exc, base, hide_parameters=True, dialect=engine.dialect) from exc


def _sent_back(way: Coroutine[Any, Any, None], returning: Returning, give_back: GiveBack) -> asyncio.Task[None]:
    task = asyncio.create_task(way)
    returning.add(task)
    task.add_done_callback(returning.discard)
    task.add_done_callback(lambda _: give_back())
    return task


async def _given_back(pooled: PoolProxiedConnection, *, commits: bool) -> None:
    """What is not committed is rolled back by the pool."""
    try:
        if commits:
            await ended(pooled.driver_connection, "commit")
    finally:
        await greenlet_spawn(pooled.close)


async def ended(driver: asyncpg.Connection | None, ending: str) -> None:
    """Or terminated: what is dead in the pool is left out, and a place that never comes back would be worse."""
    if driver is None:
        return
    try:
        async with asyncio.timeout(ROLLBACK_SECONDS):
            await driver.execute(ending)
    except Exception:  # a time-out, an outage, the late echo of a cancellation
        driver.terminate()

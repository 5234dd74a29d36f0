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
ROLLBACK_TIMEOUT_SECONDS = 5.0
ReturningTasks = set[asyncio.Task[None]]
ReleaseSlot = Callable[[], None]


@asynccontextmanager
async def acquire_connection(
    engine: AsyncEngine, returning_tasks: ReturningTasks, release_slot: ReleaseSlot
) -> AsyncIterator[AsyncConnection]:
    """Whoever is cancelled, having waited for too long, does not wait for the rollback instead.

    ``returning_tasks`` holds those that are on their way back; ``release_slot`` is called when the connection is back.
    """
    waits = True
    try:
        connection = await engine.connect()
    except BaseException:
        release_slot()
        raise
    try:
        yield connection
    except asyncio.CancelledError:
        waits = False
        raise
    finally:
        closing = _start_returning(connection.close(), returning_tasks, release_slot)
        if waits:
            await asyncio.shield(closing)


@asynccontextmanager
async def acquire_driver_connection(
    engine: AsyncEngine, returning_tasks: ReturningTasks, release_slot: ReleaseSlot
) -> AsyncIterator[PoolProxiedConnection]:
    """For reading alone, and so without a session: whoever has read does not wait for the commit either."""
    waits, commits = True, False
    try:
        pooled = await _get_pooled_connection(engine)
    except BaseException:
        release_slot()
        raise
    try:
        yield pooled
        waits, commits = False, True
    except asyncio.CancelledError:
        waits = False
        raise
    finally:
        closing = _start_returning(_return_connection(pooled, commits=commits), returning_tasks, release_slot)
        if waits:
            await asyncio.shield(closing)


async def _get_pooled_connection(engine: AsyncEngine) -> PoolProxiedConnection:
    """What goes wrong is told as where a session is opened. Raises DBAPIError."""
    try:
        return await engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as exc:
        base = engine.dialect.loaded_dbapi.Error
        raise DBAPIError.instance(None, None, exc, base, hide_parameters=True, dialect=engine.dialect) from exc


def _start_returning(
    closing: Coroutine[Any, Any, None], returning_tasks: ReturningTasks, release_slot: ReleaseSlot
) -> asyncio.Task[None]:
    task = asyncio.create_task(closing)
    returning_tasks.add(task)
    task.add_done_callback(returning_tasks.discard)
    task.add_done_callback(lambda _: release_slot())
    return task


async def _return_connection(pooled: PoolProxiedConnection, *, commits: bool) -> None:
    """What is not committed is rolled back by the pool."""
    try:
        if commits:
            await finish_or_terminate(pooled.driver_connection, "commit")
    finally:
        await greenlet_spawn(pooled.close)


async def finish_or_terminate(driver: asyncpg.Connection | None, command: str) -> None:
    """Or terminated: what is dead in the pool is left out, and a place that never comes back would be worse."""
    if driver is None:
        return
    try:
        async with asyncio.timeout(ROLLBACK_TIMEOUT_SECONDS):
            await driver.execute(command)
    except Exception:  # a time-out, an outage, the late echo of a cancellation
        driver.terminate()

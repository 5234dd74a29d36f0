"""Connections from the pool. They are returned in the background if their caller was cancelled."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.util import greenlet_spawn

# Maximum time of a commit or rollback before the connection is terminated.
ROLLBACK_TIMEOUT_SECONDS = 5.0
ReturningTasks = set[asyncio.Task[None]]
ReleaseSlot = Callable[[], None]


@asynccontextmanager
async def acquire_connection(
    engine: AsyncEngine, returning_tasks: ReturningTasks, release_slot: ReleaseSlot
) -> AsyncIterator[AsyncConnection]:
    """Yield a connection of the pool. A cancelled caller does not wait for the rollback.

    Args:
        engine: Engine of the pool.
        returning_tasks: Set that holds the tasks that return connections.
        release_slot: Function that is called when the connection is back in the pool.
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
    """Yield a connection for reading without a SQLAlchemy session. The caller does not wait for the commit.

    Args:
        engine: Engine of the pool.
        returning_tasks: Set that holds the tasks that return connections.
        release_slot: Function that is called when the connection is back in the pool.
    """
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
    """Return a connection of the pool. Errors are DBAPIError, as with a session."""
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
    """Return a connection to the pool, after a commit if requested. The pool rolls back uncommitted work."""
    try:
        if commits:
            await finish_or_terminate(pooled.driver_connection, "commit")
    finally:
        await greenlet_spawn(pooled.close)


async def finish_or_terminate(driver: asyncpg.Connection | None, command: str) -> None:
    """Run COMMIT or ROLLBACK, or terminate the connection if that fails or takes too long.

    A terminated connection is replaced by the pool. A connection that never returns would block its slot for ever.

    Args:
        driver: The connection, if it still exists.
        command: ``commit`` or ``rollback``.
    """
    if driver is None:
        return
    try:
        async with asyncio.timeout(ROLLBACK_TIMEOUT_SECONDS):
            await driver.execute(command)
    except Exception:  # a timeout, an outage, or a late error of a cancelled statement
        driver.terminate()

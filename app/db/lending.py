"""A connection of the pool for as long as somebody waits for the database, and its way back when nobody does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

# Of a connection whose answer nobody has waited for.
ROLLBACK_SECONDS = 5.0


@asynccontextmanager
async def lent(engine: AsyncEngine, returning: set[asyncio.Task[None]]) -> AsyncIterator[AsyncConnection]:
    """Whoever is cancelled, having waited for too long, does not wait for the rollback instead.

    ``returning`` holds those that are on their way back.
    """
    connection, waits = await engine.connect(), True
    try:
        yield connection
    except asyncio.CancelledError:
        waits = False
        raise
    finally:
        closing = asyncio.create_task(connection.close())
        returning.add(closing)
        closing.add_done_callback(returning.discard)
        if waits:
            await asyncio.shield(closing)


async def rolled_back(driver: asyncpg.Connection) -> None:
    """Or ended: what is dead in the pool is left out, and a place that never comes back would be worse."""
    try:
        async with asyncio.timeout(ROLLBACK_SECONDS):
            await driver.execute("rollback")
    except (TimeoutError, asyncpg.PostgresError):  # which may be the late echo of a cancellation
        driver.terminate()

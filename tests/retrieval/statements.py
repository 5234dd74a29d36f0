"""Recorder of the statements that all connections send to the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event

from harness.wait_until import wait_until
from tests.ingestion.workshop import Workshop


async def all_returned(workshop: Workshop, *, but: int = 0) -> None:
    """Wait until all connections but ``but`` are in the pool; a reader does not wait for its connection's return."""
    pool: Any = workshop.resources.database.engine.sync_engine.pool
    await wait_until(lambda: pool.checkedout() == but)


@asynccontextmanager
async def statements(workshop: Workshop, *, lent: int = 0) -> AsyncIterator[list[str]]:
    """Record the statements during the block; ``lent`` connections are in use before and after."""
    await all_returned(workshop, but=lent)
    sent: list[str] = []

    def heard(query: Any) -> None:
        sent.append(query.query)

    def listen(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.driver_connection.add_query_logger(heard)

    def unlisten(connection: Any, _record: Any) -> None:
        connection.driver_connection.remove_query_logger(heard)

    engine = workshop.resources.database.engine.sync_engine
    event.listen(engine, "checkout", listen)
    event.listen(engine, "checkin", unlisten)
    try:
        yield sent
        await all_returned(workshop, but=lent)
    finally:
        event.remove(engine, "checkout", listen)
        event.remove(engine, "checkin", unlisten)

"""What is sent to the database meanwhile, on all connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from tests.ingestion.workshop import Workshop


@contextmanager
def statements(workshop: Workshop) -> Iterator[list[str]]:
    """What is sent to the database meanwhile."""
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
    finally:
        event.remove(engine, "checkout", listen)
        event.remove(engine, "checkin", unlisten)

"""LISTEN on a separate connection, for as long as the task runs."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import asyncpg

from app.db.session import Database

RECONNECT_INTERVAL_SECONDS = 1.0
NotificationNamer = Callable[[str], str]
"""Gives the name that a notification has for a tenant, or for a document (``tenant/document``)."""


def build_notification_name(secret: str, name: str) -> str:
    """Return what the database's function of the same name returns: a digest that says nothing without the secret."""
    return hashlib.sha256(f"{secret}{name}".encode()).hexdigest()


async def listen(
    database: Database,
    channel: str,
    on_message: Callable[[str], None],
    on_reconnect: Callable[[NotificationNamer], None],
    *,
    on_disconnect: Callable[[], None] = lambda: None,
) -> None:
    """Call ``on_message`` with each payload, and ``on_reconnect`` whenever some may have been missed. Runs until
    cancelled.

    ``on_reconnect`` gets the naming of the payloads that follow.

    From ``on_reconnect`` to ``on_disconnect`` there is a connection. Without a connection no payload arrives, and a
    dead connection may show late: a listener must also poll from time to time.
    """
    while True:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await _listen_once(database, channel, on_message, on_reconnect, on_disconnect)
        await asyncio.sleep(RECONNECT_INTERVAL_SECONDS)


async def _listen_once(
    database: Database,
    channel: str,
    on_message: Callable[[str], None],
    on_reconnect: Callable[[NotificationNamer], None],
    on_disconnect: Callable[[], None],
) -> None:
    engine = database.engine
    _, options = engine.dialect.create_connect_args(engine.url)
    connection = await asyncpg.connect(**options, timeout=5)
    terminated = asyncio.Event()
    try:
        connection.add_termination_listener(lambda _: terminated.set())
        secret = await connection.fetchval("select secret from notification_secret")
        await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: on_message(payload))
        on_reconnect(partial(build_notification_name, secret))
        await terminated.wait()
    finally:
        on_disconnect()
        connection.terminate()

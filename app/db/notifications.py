"""LISTEN on a separate connection that reconnects after a failure."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import asyncpg

from app.db.session import Database

RECONNECT_INTERVAL_SECONDS = 1.0
NotificationNamer = Callable[[str], str]
"""Returns the payload that names a tenant, or a document (``tenant/document``)."""


def build_notification_name(secret: str, name: str) -> str:
    """Return the notification payload for a name: a keyed digest, which reveals nothing without the secret.

    The SQL function ``notification_name`` returns the same digest.
    """
    return hashlib.sha256(f"{secret}{name}".encode()).hexdigest()


async def listen(
    database: Database,
    channel: str,
    on_message: Callable[[str], None],
    on_reconnect: Callable[[NotificationNamer], None],
    *,
    on_disconnect: Callable[[], None] = lambda: None,
) -> None:
    """Listen to a channel until the task is cancelled. Reconnect after each failure.

    While there is no connection, no payload arrives, and a broken connection may be noticed late. A listener must
    therefore also poll.

    Args:
        database: The database to connect to.
        channel: Name of the channel.
        on_message: Function that is called with each payload.
        on_reconnect: Function that is called after each connect, because payloads may have been missed. Its argument
            computes the payloads of tenants and documents.
        on_disconnect: Function that is called after each loss of the connection.
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

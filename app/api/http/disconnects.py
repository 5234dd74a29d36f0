"""Cancellation of a request's work when its caller closes the connection."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

READ_AHEAD_BYTES = 1024 * 1024
"""Maximum number of body bytes to read before the handler does. The end of a connection is only seen after the body."""


class WatchedBody:
    """Body of a request, read ahead to notice the end of the connection while the handler runs."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffered: deque[Message | Exception] = deque()
        self._buffered_bytes = 0
        self._changed = asyncio.Event()
        self._is_watched = True
        self.is_disconnected = False

    async def receive(self) -> Message:
        """Return the next ASGI message, or raise the exception that reading it ahead has raised.

        Returns:
            The message, as the server sent it.
        """
        while not self._buffered:
            if not self._is_watched:
                return await self._receive()
            self._changed.clear()
            await self._changed.wait()
        message = self._buffered.popleft()
        if isinstance(message, Exception):
            raise message
        self._buffered_bytes -= len(message.get("body", b""))
        self._changed.set()
        return message

    async def watch_connection(self, worker: "asyncio.Task[Any]") -> None:
        """Read ahead until the connection ends, then cancel the handler.

        Args:
            worker: Task of the handler.
        """
        try:
            while not self.is_disconnected:
                while self._buffered_bytes > READ_AHEAD_BYTES:
                    self._changed.clear()
                    await self._changed.wait()
                self._buffer_message(await self._receive())
        except Exception as exc:  # such as a size limit; ``receive`` raises it after the messages before it
            self._buffered.append(exc)
        finally:
            self._is_watched = False
            self._changed.set()
        if self.is_disconnected:
            worker.cancel()

    def _buffer_message(self, message: Message) -> None:
        self.is_disconnected = message["type"] == "http.disconnect"
        self._buffered_bytes += len(message.get("body", b""))
        self._buffered.append(message)
        self._changed.set()


@asynccontextmanager
async def watch_for_disconnect(request: Request) -> AsyncIterator[Request]:
    """Cancel the block if the caller closes the connection.

    Args:
        request: The request.

    Yields:
        The request to pass to the handler; its body is read ahead.

    Raises:
        ClientDisconnect: The caller closed the connection.
    """
    body, worker = WatchedBody(request.receive), asyncio.current_task()
    assert worker is not None
    cancellations_before = worker.cancelling()
    watcher = asyncio.create_task(body.watch_connection(worker))
    try:
        try:
            yield Request(request.scope, body.receive)
        finally:
            watcher.cancel()
            await asyncio.wait((watcher,))
    except asyncio.CancelledError:
        # A cancellation with another cause, such as the shutdown of the server, is raised unchanged.
        if body.is_disconnected and worker.uncancel() <= cancellations_before:
            raise ClientDisconnect from None
        raise

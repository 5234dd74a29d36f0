"""Callers who leave: the work for a request ends when its connection does."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

READ_AHEAD_BYTES = 1024 * 1024
"""Bytes of a body that are read before the handler asks for them: behind them the end of a connection shows."""


class WatchedBody:
    """The body of a request, read ahead, so that the end of the connection is noticed while the handler works."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffered: deque[Message | Exception] = deque()
        self._buffered_bytes = 0
        self._changed = asyncio.Event()
        self._is_watched = True
        self.is_disconnected = False

    async def receive(self) -> Message:
        """Return the next message, as the server does. Raises what reading it ahead has raised."""
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
        """Read ahead until the connection ends, and cancel the worker then."""
        try:
            while not self.is_disconnected:
                while self._buffered_bytes > READ_AHEAD_BYTES:
                    self._changed.clear()
                    await self._changed.wait()
                self._buffer_message(await self._receive())
        except Exception as exc:  # a limit of the body, which the handler is told when it comes to that place
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
    """Yield the request, its body read ahead; cancel the block when the caller leaves. Raises ClientDisconnect then."""
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
        # A cancellation of somebody else's, such as the end of the server, stays one.
        if body.is_disconnected and worker.uncancel() <= cancellations_before:
            raise ClientDisconnect from None
        raise

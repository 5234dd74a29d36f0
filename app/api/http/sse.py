"""Streams of server-sent events (WHATWG HTML, section 9.2), with keepalive comments and handling of disconnects."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

# Proxies close connections that are silent for about a minute.
KEEPALIVE_INTERVAL_SECONDS = 15.0
# Maximum number of events that wait to be sent. The producer then waits.
MAX_QUEUED_EVENTS = 100
# ``X-Accel-Buffering`` asks proxies not to buffer the stream.
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
ResultT = TypeVar("ResultT")


class EventStreamResponse(EventSourceResponse):
    """Event stream that closes its generator of events as soon as the stream ends."""

    def __init__(self, events: AsyncGenerator[bytes], headers: Mapping[str, str]) -> None:
        self._events = events
        super().__init__(events, headers={**STREAM_HEADERS, **headers})

    async def stream_response(self, send: Send) -> None:
        """Send the events, then close their generator. A disconnect cancels this method."""
        async with aclosing(self._events):
            await super().stream_response(send)


class CountedEventStreamResponse(EventSourceResponse):
    """Event stream that counts against the tenant's limit of streams until it ends."""

    def __init__(self, events: AsyncIterator[bytes], exit_stack: ExitStack) -> None:
        self._exit_stack = exit_stack
        super().__init__(events, headers=STREAM_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, then release the tenant's slot, however the stream ends."""
        with self._exit_stack:
            await super().__call__(scope, receive, send)


async def add_keepalive(
    events: AsyncGenerator[bytes], *, interval_seconds: float = KEEPALIVE_INTERVAL_SECONDS
) -> AsyncGenerator[bytes]:
    """Yield the events, and a comment whenever no event comes for ``interval_seconds``.

    Args:
        events: Generator of events; it is closed at the end.
        interval_seconds: Maximum time without an event or a comment.

    Yields:
        Events and comments, encoded. Exceptions of ``events`` are raised.
    """
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_EVENTS)

    async def fill_queue() -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    await queue.put(event)
        except Exception:
            await queue.put(None)
            raise
        await queue.put(None)  # not after a cancellation, when the reader has ended

    fill_task = asyncio.create_task(fill_queue())
    try:
        while True:
            try:
                async with asyncio.timeout(interval_seconds):
                    event = await queue.get()
            except TimeoutError:
                yield KEEPALIVE_COMMENT
                continue
            if event is None:
                await fill_task
                return
            yield event
    finally:
        await _cancel_tasks(fill_task)


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run the work, and cancel it if the caller closes the connection.

    Args:
        request: The request; its body must be read completely.
        work: Coroutine to run.

    Returns:
        The result of the work.

    Raises:
        ClientDisconnect: The caller closed the connection.
    """
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((work_task, disconnect_task), return_when=asyncio.FIRST_COMPLETED)
        if not work_task.done():
            raise ClientDisconnect
        return work_task.result()
    finally:
        await _cancel_tasks(work_task, disconnect_task)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

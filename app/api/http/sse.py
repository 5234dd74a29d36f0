"""Streams of server-sent events (WHATWG HTML, section 9.2): never silent for long, and closed when a caller leaves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

from fastapi import Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

# Proxies give up on connections that are silent for a minute or so.
KEEPALIVE_INTERVAL_SECONDS = 15.0
# Events that the caller has not taken yet; with more, whoever makes them has to wait.
MAX_QUEUED_EVENTS = 100
# Proxies that gather what they pass on are asked not to.
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
ResultT = TypeVar("ResultT")


class EventStreamResponse(EventSourceResponse):
    """Closes its events at once, wherever it is ended."""

    def __init__(self, events: AsyncGenerator[bytes], headers: Mapping[str, str]) -> None:
        self._events = events
        super().__init__(events, headers={**STREAM_HEADERS, **headers})

    async def stream_response(self, send: Send) -> None:
        """As inherited; a caller that leaves cancels it."""
        async with aclosing(self._events):
            await super().stream_response(send)


class CountedEventStreamResponse(EventSourceResponse):
    """An event stream that counts as one of its tenant's until it ends."""

    def __init__(self, events: AsyncIterator[bytes], exit_stack: ExitStack) -> None:
        self._exit_stack = exit_stack
        super().__init__(events, headers=STREAM_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, and stop counting at the end, whatever ends the stream."""
        with self._exit_stack:
            await super().__call__(scope, receive, send)


async def add_keepalive(
    events: AsyncGenerator[bytes], *, interval_seconds: float = KEEPALIVE_INTERVAL_SECONDS
) -> AsyncGenerator[bytes]:
    """The events, and a comment whenever there is none for so long. Raises as they do."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_EVENTS)

    async def fill_queue() -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    await queue.put(event)
        except Exception:
            await queue.put(None)
            raise
        await queue.put(None)  # not where it was cancelled: nobody takes anything any more

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
    """What comes of the work, which ends when the caller leaves. Raises ClientDisconnect, and as the work."""
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

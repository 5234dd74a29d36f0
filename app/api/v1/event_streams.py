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
KEEPALIVE_SECONDS = 15.0
# Events that the caller has not taken yet; with more, whoever makes them has to wait.
MOST_WAITING = 100
# Proxies that gather what they pass on are asked not to.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
ResultT = TypeVar("ResultT")


class EventStreamResponse(EventSourceResponse):
    """Closes its events at once, wherever it is ended."""

    def __init__(self, events: AsyncGenerator[bytes], headers: Mapping[str, str]) -> None:
        self._events = events
        super().__init__(events, headers={**HEADERS, **headers})

    async def stream_response(self, send: Send) -> None:
        """As inherited; a caller that leaves cancels it."""
        async with aclosing(self._events):
            await super().stream_response(send)


class CountedStream(EventSourceResponse):
    """An event stream that counts as one of its tenant's until it ends."""

    def __init__(self, events: AsyncIterator[bytes], held: ExitStack) -> None:
        self._held = held
        super().__init__(events, headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, and stop counting at the end, whatever ends the stream."""
        with self._held:
            await super().__call__(scope, receive, send)


async def pulsed(events: AsyncGenerator[bytes], *, seconds: float = KEEPALIVE_SECONDS) -> AsyncGenerator[bytes]:
    """The events, and a comment whenever there is none for so long. Raises as they do."""
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)

    async def pump() -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    await waiting.put(event)
        except Exception:
            await waiting.put(None)
            raise
        await waiting.put(None)  # not where it was cancelled: nobody takes anything any more

    pumping = asyncio.create_task(pump())
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    event = await waiting.get()
            except TimeoutError:
                yield KEEPALIVE_COMMENT
                continue
            if event is None:
                await pumping
                return
            yield event
    finally:
        await _ended(pumping)


async def unless_left(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """What comes of the work, which ends when the caller leaves. Raises ClientDisconnect, and as the work."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        await _ended(working, leaving)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""Server-sent events: streams send pings, forward errors and close their sources."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from fastapi.sse import KEEPALIVE_COMMENT

from app.api.http.sse import MAX_QUEUED_EVENTS, add_keepalive


async def test_sse_silence_sends_keepalive_comments() -> None:
    go = asyncio.Event()

    async def events() -> AsyncGenerator[bytes]:
        yield b"one"
        await go.wait()
        yield b"two"

    stream = add_keepalive(events(), interval_seconds=0.01)
    assert await anext(stream) == b"one"
    assert [await anext(stream) for _ in range(3)] == [KEEPALIVE_COMMENT] * 3
    go.set()
    assert [event async for event in stream if event != KEEPALIVE_COMMENT] == [b"two"]


async def test_sse_error_follows_earlier_events() -> None:
    async def events() -> AsyncGenerator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    stream = add_keepalive(events())
    assert await anext(stream) == b"one"
    with pytest.raises(ZeroDivisionError):
        await anext(stream)


@pytest.mark.parametrize("waits", [True, False])
async def test_sse_close_closes_source(waits: bool) -> None:
    ended, made = asyncio.Event(), 0

    async def events() -> AsyncGenerator[bytes]:
        nonlocal made
        try:
            while True:
                made += 1
                yield b"one"
                if waits:
                    await asyncio.Event().wait()
        finally:
            ended.set()

    stream = add_keepalive(events())
    assert await anext(stream) == b"one"
    await stream.aclose()
    assert ended.is_set()
    # The source stops when the queue of the reader is full.
    assert made <= MAX_QUEUED_EVENTS + 2


async def test_sse_close_with_full_queue_does_not_wait() -> None:
    made = 0

    async def events() -> AsyncGenerator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"one"

    stream = add_keepalive(events())
    assert await anext(stream) == b"one"
    while made <= MAX_QUEUED_EVENTS + 1:  # the reader is slow, and then leaves
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await stream.aclose()

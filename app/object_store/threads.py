"""Threads of an object store's own, and calls into them that a cancelled task never leaves running behind its back."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")


def _do_nothing(_: object) -> None:
    pass


def _discard_result(discard: Callable[[Result], None], future: "asyncio.Future[Result]") -> None:
    # Asking for the exception matters too: an outcome that nobody asks for is logged by asyncio as lost.
    if not future.cancelled() and future.exception() is None:
        discard(future.result())


class StoreThreadPool:
    """A bounded pool apart from asyncio's default one, so that slow storage never holds up other blocking work."""

    def __init__(self, max_threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=max_threads, thread_name_prefix="object-store")

    async def run(
        self, work: Callable[[threading.Event], Result], *, discard: Callable[[Result], None] = _do_nothing
    ) -> Result:
        """Run ``work`` in a thread and wait for it; on cancellation set its event and wait until it has tidied up.

        ``discard`` gets the result that came too late for a cancelled caller: something to close.
        """
        stop = threading.Event()
        future = asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, work, stop)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            future.add_done_callback(partial(_discard_result, discard))
            await asyncio.wait({future})
            raise

    async def close(self) -> None:
        """Wait for the calls under way and end the threads."""
        await asyncio.to_thread(self._pool.shutdown)

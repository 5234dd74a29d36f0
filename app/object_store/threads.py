"""Thread pool of an object store. A cancelled call does not leave its thread running."""

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
    # The exception must be read as well, or asyncio logs it as never retrieved.
    if not future.cancelled() and future.exception() is None:
        discard(future.result())


class StoreThreadPool:
    """A bounded pool, separate from asyncio's default pool, so that slow storage does not delay other blocking work."""

    def __init__(self, max_threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=max_threads, thread_name_prefix="object-store")

    async def run(
        self, work: Callable[[threading.Event], Result], *, discard: Callable[[Result], None] = _do_nothing
    ) -> Result:
        """Run a function in a thread and wait for it.

        After a cancellation, the function is signalled, and the call waits until the function has ended.

        Args:
            work: The function. It checks the event, which is set after a cancellation.
            discard: Receives a result that arrives after a cancellation, for example to close it.

        Returns:
            The result of ``work``. Its errors are raised.
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
        """Wait for running calls and end the threads."""
        await asyncio.to_thread(self._pool.shutdown)

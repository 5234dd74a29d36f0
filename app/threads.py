"""Work in threads that ends when its caller is cancelled: the work regularly calls ``raise_if_cancelled``."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

SLICE_CHARACTERS = 1 << 16
"""Characters that a regular expression or a count processes at once. During that time no other Python thread runs."""

_BUSY_SECONDS = 0.005
_Arguments = ParamSpec("_Arguments")
_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")
_cancelled: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


class DaemonThreads:
    """Threads for functions that may never end, such as those of plugins.

    At most ``max_threads`` run at a time. They do not delay the end of the process.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        """Create the group of threads.

        Args:
            name: Beginning of the names of the threads.
            max_threads: Maximum number of running calls.
        """
        self._name = name
        self._slots = threading.BoundedSemaphore(max_threads)

    async def run(
        self, function: Callable[[_Argument], _Result], argument: _Argument
    ) -> tuple[_Result | None, Exception | None]:
        """Run a function in a thread, and wait while all threads are busy.

        The caller sets a time limit; the thread of a late call then goes on.

        Args:
            function: The function.
            argument: Its argument.

        Returns:
            The result and the error of the function. The error is not raised, because a coroutine cannot raise every
            exception, such as StopIteration. One that is no ``Exception``, as of ``sys.exit``, becomes a RuntimeError.
        """
        while not self._slots.acquire(blocking=False):  # noqa: ASYNC110  (an Event would belong to one loop)
            await asyncio.sleep(_BUSY_SECONDS)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[_Result | None, Exception | None]] = loop.create_future()

        def finish(result: Any, error: Exception | None) -> None:
            if not answer.done():
                answer.set_result((result, error))

        def run() -> None:
            result, error = None, None
            try:
                result = function(argument)
            except Exception as exc:
                error = exc
            except BaseException as exc:
                error = RuntimeError(type(exc).__name__)
            finally:
                self._slots.release()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, result, error)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return await answer


async def run_in_thread(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> _Result:
    """Run a function in a thread, like ``asyncio.to_thread``. If the caller is cancelled, ``raise_if_cancelled`` raises
    an exception in the thread.

    Args:
        function: The function.
        arguments: Its positional arguments.
        options: Its keyword arguments.
    """
    cancelled = threading.Event()
    token = _cancelled.set(cancelled)
    try:
        return await asyncio.to_thread(function, *arguments, **options)
    except asyncio.CancelledError:
        cancelled.set()
        raise
    finally:
        _cancelled.reset(token)


def raise_if_cancelled() -> None:
    """Raise concurrent.futures.CancelledError if the caller of ``run_in_thread`` is cancelled.

    Call it every few milliseconds of work in a thread.
    """
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled.is_set():
        raise CancelledError

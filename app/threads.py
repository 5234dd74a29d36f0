"""Work in threads that ends when its caller is cancelled: it asks, from time to time, whether it is still wanted."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

SLICE_CHARACTERS = 1 << 16
"""What a regular expression or a count looks through at once: no other thread, nor the event loop, runs meanwhile."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_cancelled: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


async def run_in_thread(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> _Result:
    """Run a function in a thread, as ``asyncio.to_thread`` does; tell it when the caller is cancelled."""
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
    """Go on if somebody waits for the result. Call it every few milliseconds of work in a thread.

    Raises concurrent.futures.CancelledError if the caller of ``run_in_thread`` is cancelled.
    """
    cancelled = _cancelled.get()
    if cancelled is not None and cancelled.is_set():
        raise CancelledError

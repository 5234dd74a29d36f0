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
_unwanted: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


async def run_in_thread(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> _Result:
    """Run a function in a thread, as ``asyncio.to_thread`` does; tell it when the caller is cancelled."""
    unwanted = threading.Event()
    token = _unwanted.set(unwanted)
    try:
        return await asyncio.to_thread(function, *arguments, **options)
    except asyncio.CancelledError:
        unwanted.set()
        raise
    finally:
        _unwanted.reset(token)


def require_wanted() -> None:
    """Go on if somebody waits for the result. Call it every few milliseconds of work in a thread.

    Raises concurrent.futures.CancelledError if the caller of ``run_in_thread`` is cancelled.
    """
    unwanted = _unwanted.get()
    if unwanted is not None and unwanted.is_set():
        raise CancelledError

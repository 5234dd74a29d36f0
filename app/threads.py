"""Work in threads that ends when its caller is cancelled: the work regularly calls ``raise_if_cancelled``."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

SLICE_CHARACTERS = 1 << 16
"""Characters that a regular expression or a count processes at once. During that time no other Python thread runs."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_cancelled: ContextVar[threading.Event | None] = ContextVar("unwanted", default=None)


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

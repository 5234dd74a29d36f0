"""Calls into threads: no work continues after a cancelled caller, and no late result is lost."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from app.object_store.threads import StoreThreadPool

word = ContextVar("word", default="none")


@pytest.fixture
async def threads() -> AsyncIterator[StoreThreadPool]:
    pool = StoreThreadPool(2)
    yield pool
    await pool.close()


async def test_run_in_threads_returns_results_errors_and_context(threads: StoreThreadPool) -> None:
    word.set("mine")
    late: list[str] = []
    assert await threads.run(lambda _: word.get(), discard=late.append) == "mine"
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda _: 1 // 0)
    assert late == []


@pytest.mark.parametrize("fails", [False, True])
async def test_run_in_threads_cancelled_caller_waits_and_late_result_is_discarded(
    threads: StoreThreadPool, fails: bool
) -> None:
    started, late, complaints = threading.Event(), list[str](), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def work(stop: threading.Event) -> str:
        started.set()
        assert stop.wait(30)
        if fails:
            raise ValueError
        return "late"

    task = asyncio.create_task(threads.run(work, discard=late.append))
    assert await asyncio.to_thread(started.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    asyncio.get_running_loop().set_exception_handler(None)
    assert late == ([] if fails else ["late"])
    assert complaints == []


async def test_run_in_threads_more_calls_than_threads_wait(threads: StoreThreadPool) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(_: threading.Event) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        _.wait(0.01)
        with lock:
            running -= 1

    await asyncio.gather(*(threads.run(work) for _ in range(10)))
    assert most == 2

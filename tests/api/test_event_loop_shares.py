"""Shares of the event loop: a tenant with heavy requests waits, others do not."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import pytest

from app.api.http.event_loop_shares import (
    LAG_THRESHOLD_SECONDS,
    MAX_CONCURRENT_WHEN_HEAVY,
    LoopShares,
    TooManyAtOnce,
    create_measured_task,
)

HEAVY, OTHER = UUID(int=1), UUID(int=2)
GUARD_SECONDS = 30


def lagging(*, heavy: bool = True) -> LoopShares:
    """Return shares of an event loop that lags. No task measures the lag, so it does not change."""
    shares = LoopShares(lag_seconds=10 * LAG_THRESHOLD_SECONDS)
    if heavy:
        shares.charge(HEAVY, 10.0)
    return shares


async def hold(shares: LoopShares, tenant: UUID, running: list[UUID], free: asyncio.Event) -> None:
    async with shares.acquire(tenant):
        running.append(tenant)
        await free.wait()
    running.remove(tenant)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def started(
    shares: LoopShares, tenants: list[UUID]
) -> tuple[list[UUID], asyncio.Event, list[asyncio.Task[None]]]:
    running: list[UUID] = []
    free = asyncio.Event()
    tasks = [asyncio.create_task(hold(shares, tenant, running, free)) for tenant in tenants]
    await settle()
    return running, free, tasks


@pytest.mark.parametrize(
    ("shares", "tenants", "admitted"),
    [
        (lagging(), [OTHER, *[HEAVY] * 6], 1 + MAX_CONCURRENT_WHEN_HEAVY),
        (lagging(), [HEAVY] * 6, 6),  # no other tenant is waiting
        (lagging(heavy=False), [OTHER, *[HEAVY] * 6], 7),  # the tenant used no time of the event loop
        (LoopShares(), [OTHER, *[HEAVY] * 6], 7),  # the event loop does not lag
        (lagging(), [HEAVY, *[OTHER] * 6], 7),
    ],
)
async def test_loop_shares_heavy_tenant_waits(shares: LoopShares, tenants: list[UUID], admitted: int) -> None:
    running, free, tasks = await started(shares, tenants)
    assert len(running) == admitted
    free.set()
    async with asyncio.timeout(GUARD_SECONDS):
        await asyncio.gather(*tasks)
    assert running == []
    _, free, tasks = await started(shares, [OTHER])
    free.set()
    await asyncio.gather(*tasks)


async def test_loop_shares_measure_requests_when_loop_is_late() -> None:
    assert LoopShares().can_run_unmeasured(HEAVY)
    late = lagging()
    assert not late.can_run_unmeasured(HEAVY)
    late.lag_seconds = 0.0
    assert late.can_run_unmeasured(OTHER)


async def test_loop_shares_cancelled_waiter_leaves_queue() -> None:
    shares = lagging()
    running, free, tasks = await started(shares, [OTHER, *[HEAVY] * (MAX_CONCURRENT_WHEN_HEAVY + 2)])
    tasks[-1].cancel()
    await settle()
    free.set()
    async with asyncio.timeout(GUARD_SECONDS):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [False] * (
        MAX_CONCURRENT_WHEN_HEAVY + 2
    ) + [True]
    assert running == []


async def test_loop_shares_long_wait_is_refused() -> None:
    shares = LoopShares(lag_seconds=10 * LAG_THRESHOLD_SECONDS, wait_timeout_seconds=0.01)
    shares.charge(HEAVY, 10.0)
    _, free, tasks = await started(shares, [OTHER, *[HEAVY] * MAX_CONCURRENT_WHEN_HEAVY])
    with pytest.raises(TooManyAtOnce):
        async with shares.acquire(HEAVY):
            pass
    free.set()
    await asyncio.gather(*tasks)


async def test_loop_shares_waiters_are_admitted_when_loop_recovers() -> None:
    shares = lagging()
    running, free, tasks = await started(shares, [OTHER, *[HEAVY] * 5])
    watch = asyncio.create_task(shares.watch_lag())
    async with asyncio.timeout(GUARD_SECONDS):
        while len(running) < 6:
            await asyncio.sleep(0.01)
    watch.cancel()
    free.set()
    await asyncio.gather(*tasks)


async def test_loop_shares_charge_running_and_not_waiting_time() -> None:
    charged: dict[str, float] = {}

    async def measure(name: str, work: Coroutine[Any, Any, str]) -> str:
        shares = LoopShares()
        result = await shares.measure(HEAVY, work)
        charged[name] = shares.get_charged_seconds(HEAVY)
        return result

    async def works() -> str:
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(0)
        return "worked"

    async def waits() -> str:
        await asyncio.sleep(0.2)
        return "waited"

    assert await measure("works", works()) == "worked"
    assert await measure("waits", waits()) == "waited"
    assert charged["works"] >= 0.05
    assert charged["waits"] < 0.2


async def test_loop_shares_charge_tasks_of_request() -> None:
    shares = LoopShares()

    async def works() -> None:
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:
            pass

    async def request() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(works())

    loop = asyncio.get_running_loop()
    loop.set_task_factory(create_measured_task)  # type: ignore[arg-type]  # generic in its result
    try:
        await shares.measure(HEAVY, request())
        await asyncio.create_task(works())
    finally:
        loop.set_task_factory(None)
    assert 0.05 <= shares.get_charged_seconds(HEAVY) < 0.1


async def test_loop_shares_task_cancelled_before_first_step_is_handled() -> None:
    shares = LoopShares()

    async def request() -> str:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else "not"

    loop = asyncio.get_running_loop()
    loop.set_task_factory(create_measured_task)  # type: ignore[arg-type]  # generic in its result
    try:
        assert await shares.measure(HEAVY, request()) == "cancelled"
    finally:
        loop.set_task_factory(None)


async def test_loop_shares_measured_errors_and_cancellations_propagate() -> None:
    shares = LoopShares()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("mine")

    async def takes_its_time() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "tidied"
        return "not cancelled"

    with pytest.raises(KeyError, match="mine"):
        await shares.measure(HEAVY, fails())
    task = asyncio.create_task(shares.measure(HEAVY, takes_its_time()))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "tidied"

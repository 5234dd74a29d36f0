"""Shares of the connection pool: no tenant has all of it, and waiting tenants are served in turn."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import pytest

from app.db.models.base import SYSTEM_TENANT
from app.db.pool_shares import PoolShares
from app.db.session import Database, DatabaseUnavailable
from app.embedded_postgres import DatabaseUrls

ONE, OTHER, THIRD = UUID(int=11), UUID(int=12), UUID(int=13)
GUARD_SECONDS = 30


async def waits(task: "asyncio.Task[object]") -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def test_tenant_with_its_share_waits_and_others_do_not() -> None:
    shares = PoolShares(capacity=4, share=2, timeout_seconds=GUARD_SECONDS)
    held = [await shares.acquire(ONE) for _ in range(2)]
    third = asyncio.create_task(shares.acquire(ONE))
    assert await waits(third)
    (await shares.acquire(OTHER))()
    held[0]()
    assert not await waits(third)
    held[0]()  # a second release has no effect
    assert await waits(asyncio.create_task(shares.acquire(ONE)))


async def test_full_pool_serves_waiting_tenants_in_turn() -> None:
    shares = PoolShares(capacity=2, share=2, timeout_seconds=GUARD_SECONDS)
    held = [await shares.acquire(ONE) for _ in range(2)]
    order: list[UUID] = []

    async def take(tenant_id: UUID) -> None:
        give_back = await shares.acquire(tenant_id)
        order.append(tenant_id)
        give_back()

    tasks = [asyncio.create_task(take(tenant)) for tenant in (OTHER, OTHER, OTHER, THIRD)]
    assert await waits(tasks[0])
    held[0]()
    await asyncio.gather(*tasks)
    assert order[:2] == [OTHER, THIRD]
    held[1]()
    assert (shares._total, shares._in_use, dict(shares._waiting)) == (0, {}, {})


async def test_pool_shares_do_not_apply_to_service() -> None:
    shares = PoolShares(capacity=1, share=1, timeout_seconds=GUARD_SECONDS)
    await shares.acquire(ONE)
    for tenant in (None, SYSTEM_TENANT):
        (await shares.acquire(tenant))()


async def test_pool_shares_cancelled_and_late_callers_leave_nothing() -> None:
    shares = PoolShares(capacity=1, share=1, timeout_seconds=0.01)
    held = await shares.acquire(ONE)
    with pytest.raises(TimeoutError):
        await shares.acquire(OTHER)
    waiting = asyncio.create_task(shares.acquire(OTHER))
    assert await waits(waiting)
    waiting.cancel()
    held()  # without a step of the event loop between
    await asyncio.gather(waiting, return_exceptions=True)
    assert (shares._total, shares._in_use, dict(shares._waiting)) == (0, {}, {})


async def test_pool_one_tenant_cannot_use_all_connections(database: DatabaseUrls) -> None:
    pool = Database.connect(database.app, pool_size=3)
    one, other = uuid4(), uuid4()
    try:
        async with AsyncExitStack() as held, asyncio.timeout(GUARD_SECONDS):
            for _ in range(pool.pool_shares.share):
                await held.enter_async_context(pool.transaction(one))

            async def more() -> None:
                async with pool.transaction(one):
                    pass

            waiting = asyncio.create_task(more())
            async with pool.transaction(other):  # no other tenant's transaction waits for the first tenant's
                assert not waiting.done()
            async with pool.read_transaction(other):
                pass
        async with asyncio.timeout(GUARD_SECONDS):
            await waiting
    finally:
        await pool.close()


async def test_pool_wait_timeout_names_reason(database: DatabaseUrls) -> None:
    pool = Database.connect(database.app, pool_size=1)
    pool.pool_shares.timeout_seconds = 0.05
    tenant = uuid4()
    try:
        async with AsyncExitStack() as held:
            for _ in range(pool.pool_shares.share):
                await held.enter_async_context(pool.transaction(tenant))
            with pytest.raises(DatabaseUnavailable, match="one tenant"):
                async with pool.transaction(tenant):
                    pass
    finally:
        await pool.close()

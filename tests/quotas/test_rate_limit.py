"""Search rate limits: one bucket for all processes, few database calls by a busy process, separate for each tenant."""

import asyncio
import time
from dataclasses import dataclass
from uuid import UUID

import pytest

from app.db.session import Database
from app.ids import generate_id
from app.quotas.rate_limit import PREFETCH_WINDOW_SECONDS, LocalBucket, SearchRateLimiter
from app.quotas.types import NO_KEY, RateLimitExceeded
from harness.manual_clock import ManualClock
from tests.quotas.conftest import add_tenant

SLOW = 0.01


@dataclass(slots=True)
class CountingRateLimiter(SearchRateLimiter):
    """Counts the calls to the database."""

    asked: int = 0

    async def _prefetch(self, local_bucket: LocalBucket, tenant_id: UUID, bucket_id: UUID, rate: float) -> None:
        self.asked += 1
        await SearchRateLimiter._prefetch(self, local_bucket, tenant_id, bucket_id, rate)


async def admitted(rates: SearchRateLimiter, tenant_id: UUID, rate: float, *, bucket: UUID = NO_KEY) -> bool:
    try:
        await rates.acquire(tenant_id, bucket, rate)
    except RateLimitExceeded:
        return False
    return True


async def test_search_rate_processes_share_one_bucket(connected: Database, tenant_id: UUID) -> None:
    one, other = SearchRateLimiter(connected), SearchRateLimiter(connected)
    assert await admitted(one, tenant_id, SLOW)
    assert not await admitted(other, tenant_id, SLOW)
    assert not await admitted(one, tenant_id, SLOW)


async def test_search_rate_tenants_and_keys_have_separate_buckets(connected: Database, tenant_id: UUID) -> None:
    rates, key = SearchRateLimiter(connected), generate_id()
    for tenant in (tenant_id, await add_tenant(connected)):
        for bucket in (NO_KEY, key):
            assert await admitted(rates, tenant, SLOW, bucket=bucket)
            assert not await admitted(rates, tenant, SLOW, bucket=bucket)


async def test_search_rate_refusal_has_retry_after(connected: Database, tenant_id: UUID) -> None:
    rates = SearchRateLimiter(connected)
    state = await rates.acquire(tenant_id, NO_KEY, SLOW)
    assert (state.limit, state.remaining) == (1, 0)
    assert 95 <= state.reset_seconds <= 100
    with pytest.raises(RateLimitExceeded) as refusal:
        await rates.acquire(tenant_id, NO_KEY, SLOW)
    assert 90 < refusal.value.retry_after <= 100


async def test_search_rate_refusal_is_cached(connected: Database, tenant_id: UUID) -> None:
    clock = ManualClock()
    process = CountingRateLimiter(connected, clock=clock)
    assert await admitted(process, tenant_id, SLOW)
    assert not await admitted(process, tenant_id, SLOW)
    asked = process.asked
    for _ in range(20):
        assert not await admitted(process, tenant_id, SLOW)
    assert process.asked == asked
    clock.now += 100
    assert not await admitted(process, tenant_id, SLOW)  # no time has passed by the database's clock
    assert process.asked == asked + 1


async def test_search_rate_concurrent_admissions_equal_sequential_ones(connected: Database, tenant_id: UUID) -> None:
    rate, processes = (
        60.0,
        [CountingRateLimiter(connected), CountingRateLimiter(connected), CountingRateLimiter(connected)],
    )
    begun = time.monotonic()
    answers = await asyncio.gather(
        *(admitted(processes[number % 3], tenant_id, rate) for number in range(600)),
    )
    seconds = time.monotonic() - begun
    # The burst and the refill during the test; a refused process may lose only its prefetched tokens.
    assert 120 - 3 * rate * PREFETCH_WINDOW_SECONDS <= sum(answers) <= 120 + rate * seconds + 1


async def test_search_rate_busy_process_queries_database_rarely(connected: Database, tenant_id: UUID) -> None:
    process = CountingRateLimiter(connected, clock=ManualClock())
    for _ in range(400):
        assert await admitted(process, tenant_id, 400.0)
    assert process.asked <= 12


async def test_search_rate_prefetched_tokens_expire(connected: Database, tenant_id: UUID) -> None:
    clock = ManualClock()
    process = CountingRateLimiter(connected, clock=clock)
    for _ in range(10):
        await process.acquire(tenant_id, NO_KEY, 100.0)
    asked = process.asked
    clock.now += PREFETCH_WINDOW_SECONDS
    await process.acquire(tenant_id, NO_KEY, 100.0)
    assert process.asked == asked + 1
    await process.acquire(tenant_id, NO_KEY, 100.0)  # it had taken only the needed tokens
    assert process.asked == asked + 2


async def test_search_rate_returned_token_can_be_used(connected: Database, tenant_id: UUID) -> None:
    clock = ManualClock()
    rates = SearchRateLimiter(connected, clock=clock)
    await rates.acquire(tenant_id, NO_KEY, SLOW)
    rates.release(tenant_id, NO_KEY, SLOW)
    clock.now += 1 / SLOW - 1
    assert await admitted(rates, tenant_id, SLOW)
    assert not await admitted(rates, tenant_id, SLOW)


async def test_search_rate_changed_rate_applies_immediately(connected: Database, tenant_id: UUID) -> None:
    rates = SearchRateLimiter(connected, clock=ManualClock())
    assert (await rates.acquire(tenant_id, NO_KEY, 1000.0)).limit == 2000
    assert (await rates.acquire(tenant_id, NO_KEY, 2.0)).limit == 4
    taken = [await admitted(rates, tenant_id, 2.0) for _ in range(8)]
    assert 3 <= sum(taken) <= 5

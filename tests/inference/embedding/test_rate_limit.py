"""Rate limits that processes share through the database: pauses, and priority of queries."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.db.control_plane import ControlPlaneDatabase
from app.db.session import Database
from app.embedded_postgres import DatabaseUrls
from app.inference.embedding.rate_limit import (
    MAX_PAUSE_SECONDS,
    SharedRateLimiter,
    UnlimitedRateLimiter,
    compute_provider_key,
)


@pytest.fixture
async def system(database: DatabaseUrls) -> AsyncIterator[ControlPlaneDatabase]:
    pool = Database.connect(database.app, pool_size=4)
    yield ControlPlaneDatabase(pool)
    await pool.close()


@pytest.fixture
def provider() -> UUID:
    return uuid4()


def pace(
    system: ControlPlaneDatabase, provider: UUID, *, requests: int | None = None, tokens: int | None = None
) -> SharedRateLimiter:
    return SharedRateLimiter(system, provider, requests_per_minute=requests, tokens_per_minute=tokens)


async def pass_time(owner: asyncpg.Connection, provider: UUID, seconds: float) -> None:
    await owner.execute(
        "update provider_rate_limit set filled_at = filled_at - $2 * interval '1 s',"
        " paused_until = paused_until - $2 * interval '1 s' where provider = $1",
        provider, seconds,
    )  # fmt: skip


async def taken(pace: SharedRateLimiter, tokens: int, *, interactive: bool = False) -> int:
    """Return the number of successive calls that are allowed."""
    count = 0
    while not await pace.acquire(tokens, interactive=interactive):
        count += 1
        assert count < 1000
    return count


# The limits are so low that the duration of the test makes no difference.
async def test_bulk_calls_get_a_share_immediately_and_then_the_rate(
    system: ControlPlaneDatabase, owner: asyncpg.Connection, provider: UUID
) -> None:
    paced = pace(system, provider, requests=12)
    assert await taken(paced, 5) == 2
    assert 0.0 < await paced.acquire(5, interactive=False) <= 5.0
    await pass_time(owner, provider, 5.0)
    assert await taken(paced, 5) == 1
    await pass_time(owner, provider, 3600.0)
    assert await taken(paced, 5) == 2


async def test_token_limit_applies_with_request_limit(
    system: ControlPlaneDatabase, owner: asyncpg.Connection, provider: UUID
) -> None:
    paced = pace(system, provider, requests=6000, tokens=600)
    assert paced.max_tokens == 100
    # the second call exceeds the limit: large calls are not delayed in favour of small ones
    assert await taken(paced, 99) == 2
    assert 5.0 < await paced.acquire(1, interactive=False) <= 9.9
    await pass_time(owner, provider, 9.9)
    assert await taken(paced, 99) == 1


async def test_query_is_admitted_while_bulk_work_waits(system: ControlPlaneDatabase, provider: UUID) -> None:
    paced = pace(system, provider, requests=12, tokens=600)
    assert await taken(paced, 99) == 2
    assert await taken(paced, 1, interactive=True) == 6  # the share of half a minute
    assert await paced.acquire(1, interactive=False) > 25.0


async def test_queries_are_limited_too(system: ControlPlaneDatabase, provider: UUID) -> None:
    paced = pace(system, provider, requests=12)
    assert await taken(paced, 10, interactive=True) == 2 + 6
    assert 0.0 < await paced.acquire(10, interactive=True) <= 5.0


async def test_minimal_limits_admit_calls(
    system: ControlPlaneDatabase, owner: asyncpg.Connection, provider: UUID
) -> None:
    paced = pace(system, provider, requests=1, tokens=1)
    assert paced.max_tokens == 1
    assert await taken(paced, 1) == 1
    assert 50.0 < await paced.acquire(1, interactive=False) <= 60.0
    await pass_time(owner, provider, 60.0)
    assert await taken(paced, 1) == 1


@pytest.mark.capability("model-rate")
async def test_processes_share_one_limit(database: DatabaseUrls, provider: UUID) -> None:
    pools = [Database.connect(database.app, pool_size=4) for _ in range(3)]
    paces = [pace(ControlPlaneDatabase(pool), provider, requests=12) for pool in pools]
    waits = await asyncio.gather(*(paced.acquire(1, interactive=False) for paced in paces for _ in range(8)))
    assert waits.count(0.0) == 2
    for pool in pools:
        await pool.close()


async def test_providers_have_separate_limits(system: ControlPlaneDatabase) -> None:
    first, second = (pace(system, uuid4(), requests=12) for _ in range(2))
    assert await taken(first, 1) == await taken(second, 1) == 2


async def test_pause_applies_to_all_processes(
    system: ControlPlaneDatabase, owner: asyncpg.Connection, provider: UUID
) -> None:
    first, second = (pace(system, provider, requests=60) for _ in range(2))
    assert not await second.acquire(1, interactive=True)
    await first.pause(20.0)
    await first.pause(5.0)
    for interactive in (False, True):
        assert 15.0 < await second.acquire(1, interactive=interactive) <= 20.01
    await pass_time(owner, provider, 20.1)
    assert not await second.acquire(1, interactive=True)


async def test_pause_before_first_call_applies(system: ControlPlaneDatabase, provider: UUID) -> None:
    paced = pace(system, provider, tokens=60)
    await paced.pause(20.0)
    assert await paced.acquire(1, interactive=True) > 15.0


@pytest.mark.parametrize("seconds", [MAX_PAUSE_SECONDS + 1, 1e12])
async def test_pause_is_limited_to_maximum(system: ControlPlaneDatabase, provider: UUID, seconds: float) -> None:
    paced = pace(system, provider, requests=60)
    await paced.pause(seconds)
    assert MAX_PAUSE_SECONDS - 30.0 < await paced.acquire(1, interactive=False) <= MAX_PAUSE_SECONDS


async def test_real_cost_of_call_is_charged_to_next_call(
    system: ControlPlaneDatabase, owner: asyncpg.Connection, provider: UUID
) -> None:
    async def left() -> float:
        found: float = await owner.fetchval("select tokens from provider_rate_limit where provider = $1", provider)
        return found

    paced = pace(system, provider, tokens=60)
    assert not await paced.acquire(8, interactive=False)
    assert await left() == 2.0
    paced.adjust(-3)
    paced.adjust(25)
    assert not await paced.acquire(1, interactive=False)
    assert -22.0 < (low := await left()) < -16.0
    paced.adjust(-100)
    assert await paced.acquire(1, interactive=False)  # refused, but the correction remains
    await pass_time(owner, provider, 30.0)
    assert not await paced.acquire(1, interactive=False)
    assert await left() > low + 99.0
    assert not await paced.acquire(1, interactive=False)
    assert 8.0 < await left() < 10.0  # never more than a share


async def test_unlimited_rate_limiter_never_waits() -> None:
    paced = UnlimitedRateLimiter()
    await paced.pause(30.0)
    assert await paced.acquire(10**9, interactive=False) == 0.0


async def test_tenants_cannot_read_rate_limits(
    database: DatabaseUrls, system: ControlPlaneDatabase, provider: UUID
) -> None:
    await pace(system, provider, requests=60).pause(1.0)
    for tenant in (None, uuid4()):
        async with system.database.transaction(tenant) as session:
            connection = await session.connection()
            found = await connection.exec_driver_sql("select count(*) from provider_rate_limit")
            assert found.scalar_one() == 0


def test_provider_key_is_endpoint_and_model() -> None:
    keys = {compute_provider_key(url, model) for url in ("http://a/v1", "http://b/v1") for model in ("m", "n")}
    assert len(keys) == 4
    assert compute_provider_key("http://a/v1", "m") in keys

"""Limits in the memory of one process: a rate, and concurrent calls."""

from uuid import UUID

import pytest

from app.principal import Principal, Quotas, Role
from app.quotas.local_limits import LocalLimits
from app.quotas.types import RateLimitExceeded
from harness.manual_clock import ManualClock

ONE, OTHER, LINE = UUID(int=1), UUID(int=2), UUID(int=3)


def limits(clock: ManualClock, **changes: float) -> LocalLimits:
    return LocalLimits(changes.get("rate", 5.0), int(changes.get("searches", 2)), 1, clock=clock)


def caller(tenant_id: UUID, **quotas: int) -> Principal:
    return Principal(tenant_id, "a tenant", Role.READER, quotas=Quotas(**quotas))


def test_default_search_rate_allows_two_seconds_of_burst() -> None:
    clock = ManualClock()
    made = limits(clock)
    states = [made.acquire_search(ONE) for _ in range(10)]
    assert (states[0].limit, states[0].remaining, states[-1].remaining, states[-1].reset_seconds) == (10, 9, 0, 2)
    with pytest.raises(RateLimitExceeded) as refused:
        made.acquire_search(ONE)
    assert refused.value.retry_after == pytest.approx(0.2)
    assert made.acquire_search(OTHER).remaining == 9
    clock.now += 0.2
    made.acquire_search(ONE)
    with pytest.raises(RateLimitExceeded):
        made.acquire_search(ONE)


def test_concurrent_searches_are_limited_by_tenant() -> None:
    made = limits(ManualClock())
    with made.track(caller(ONE), "concurrent_searches"), made.track(caller(ONE), "concurrent_searches"):
        with (
            pytest.raises(RateLimitExceeded, match="2 searches at once") as refused,
            made.track(caller(ONE), "concurrent_searches"),
        ):
            raise AssertionError
        assert refused.value.fields == {"limit": 2, "quota": "concurrent_searches"}
        with made.track(caller(OTHER), "concurrent_searches"):
            pass
        with made.track(caller(ONE, concurrent_searches=3), "concurrent_searches"):
            pass
    with made.track(caller(ONE), "concurrent_searches"):
        pass
    assert not made._in_use


def test_key_quota_limits_inside_tenant() -> None:
    made = limits(ManualClock(), searches=3)
    narrow = Principal(
        ONE, "a tenant", Role.READER, key_quotas=Quotas(concurrent_searches=1), key_lineage_id=LINE, quotas=Quotas()
    )
    with made.track(narrow, "concurrent_searches"):
        with (
            pytest.raises(RateLimitExceeded, match="This key has 1 searches at once"),
            made.track(narrow, "concurrent_searches"),
        ):
            raise AssertionError
        with made.track(caller(ONE), "concurrent_searches"), made.track(caller(ONE), "concurrent_searches"):
            pass
    assert not made._in_use

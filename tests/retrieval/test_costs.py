"""Costs of filters: estimated by earlier searches; expensive filters take turns, and cheap ones do not wait."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from uuid import UUID

import pytest

from app.filters import CompiledFilter, compile_filter
from app.quotas.types import RateLimitExceeded
from app.retrieval.costs import MAX_LIGHT_CALLS, FilterTooExpensive, SearchCosts
from app.retrieval.repository import RetrieverQuery
from harness.manual_clock import ManualClock

ONE, OTHER, INDEX = UUID(int=1), UUID(int=2), UUID(int=3)
PATTERNS: Mapping[str, object] = {"or": [{"blob": {"contains": f"part {number}"}} for number in range(16)]}
FEW: Mapping[str, object] = {"and": [{"name": {"contains": "north"}}, {"year": {"gte": 2020}}]}


def calls(expression: Mapping[str, object] | None, count: int = 1) -> list[RetrieverQuery]:
    made = compile_filter(expression) if expression else CompiledFilter()
    return [RetrieverQuery(ONE, INDEX, 4, None, [1], [1], [], made)] * count


def admitted(
    costs: SearchCosts, tenant: UUID, asked: list[RetrieverQuery], *, remaining: float = 0.02, first: float = 2.0
) -> AbstractAsyncContextManager[None]:
    return costs.acquire_slot(tenant, asked, remaining_seconds=remaining, database_timeout_seconds=first)


def test_filter_weight_counts_read_values() -> None:
    assert compile_filter({"year": 2024}).weight == 0
    assert compile_filter({"year": {"gte": 2024}}).weight < 1
    assert compile_filter({"tags": [str(number) for number in range(1000)]}).weight < 1
    assert 10 <= compile_filter({"name": {"contains": "x"}}).weight < 12
    assert compile_filter(PATTERNS).weight > 160


@pytest.mark.parametrize("asked", [calls(None), calls({"year": {"gte": 2024}}), calls(None, MAX_LIGHT_CALLS)])
async def test_cheap_searches_do_not_wait(asked: list[RetrieverQuery]) -> None:
    costs = SearchCosts(1, 1)
    async with AsyncExitStack() as held:
        for _ in range(50):
            await held.enter_async_context(admitted(costs, ONE, asked))


async def test_filter_of_unknown_cost_waits_until_it_is_cheap() -> None:
    costs = SearchCosts(1, 2)
    async with admitted(costs, ONE, calls(FEW)):
        with pytest.raises(RateLimitExceeded):
            async with admitted(costs, ONE, calls(FEW)):
                raise AssertionError
        async with admitted(costs, OTHER, calls(FEW)):
            pass
        costs.record_cost(ONE, calls(FEW), 0.01, timed_out=False)
        async with admitted(costs, ONE, calls(FEW)):
            pass
    assert not costs._running


async def test_expensive_searches_of_all_tenants_have_two_slots() -> None:
    costs = SearchCosts(1, 2)
    wide = calls(None, MAX_LIGHT_CALLS + 1)
    async with admitted(costs, ONE, wide), admitted(costs, OTHER, wide):
        with pytest.raises(RateLimitExceeded):
            async with admitted(costs, INDEX, wide):
                raise AssertionError
        waiting = asyncio.create_task(admitted(costs, INDEX, wide, remaining=60).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    async with asyncio.timeout(30):
        await waiting


async def test_filter_after_timeout_is_refused_for_a_minute() -> None:
    clock = ManualClock()
    costs = SearchCosts(1, 2, clock)
    costs.record_cost(ONE, calls(PATTERNS), 2.0, timed_out=True)
    with pytest.raises(FilterTooExpensive) as refused:
        async with admitted(costs, ONE, calls(PATTERNS)):
            raise AssertionError
    assert refused.value.loc == ("body", "filter")
    assert "fewer" in refused.value.message
    # With more time it is tried. A small filter is never refused, and other tenants had no expensive search.
    for tenant, asked, first in ((ONE, PATTERNS, 5.0), (ONE, FEW, 2.0), (OTHER, PATTERNS, 2.0)):
        async with admitted(costs, tenant, calls(asked), first=first):
            pass
    clock.now += 61
    async with admitted(costs, ONE, calls(PATTERNS)):
        pass

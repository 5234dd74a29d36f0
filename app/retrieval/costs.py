"""Costs of filters: weighed before a search runs by the costs of earlier ones; expensive searches take turns."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

from app.errors import InvalidInputError
from app.quotas.types import RateLimitExceeded
from app.retrieval.repository import RetrieverQuery

# A filter of less weight is never looked at: equality, ranges, short lists.
MIN_WEIGHT = 8.0
# A filter of less weight runs in its turn, and is not refused: a few patterns, a list of some hundred values.
MIN_REFUSED_WEIGHT = 45.0
# Expected seconds of the database up to which a search waits for nobody.
MAX_LIGHT_SECONDS = 0.25
# Lane queries (queries times search indexes) of one search up to which it waits for nobody.
MAX_LIGHT_CALLS = 100
# How long a measured cost counts, and of how many search indexes one process knows it.
COST_TTL_SECONDS, MAX_CACHED_COSTS = 60.0, 10_000
# A filter whose time ran out is taken to need this many times that time: it would have gone on.
TIMEOUT_COST_FACTOR = 1.25
# The part of its remaining time that a search waits for its turn.
MAX_WAIT_SHARE = 0.5


class FilterTooExpensive(InvalidInputError):
    """The filter is too expensive."""

    code = "filter_too_expensive"


# Of a tenant, in a search index, with or without the dense lane: that one looks at more rows.
_CostKey = tuple[UUID, UUID, bool]


class _Cost(NamedTuple):
    """Seconds of the database per unit of weight, when they were measured, and whether the time ran out."""

    seconds_per_weight: float
    measured_at: float
    timed_out: bool


@dataclass(slots=True)
class SearchCosts:
    """The measured costs of filters, and the turns of expensive searches. One for all searches of a process.

    Args:
        per_tenant: expensive searches of one tenant that run at once.
        per_process: the same of all tenants.
    """

    max_per_tenant: int = 1
    max_per_process: int = 2
    clock: Callable[[], float] = time.monotonic
    _costs: OrderedDict[_CostKey, _Cost] = field(default_factory=OrderedDict)
    _running: Counter[UUID] = field(default_factory=Counter)
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @classmethod
    def from_pool_size(cls, pool_size: int) -> Self:
        """Give one tenant a tenth of the pool, and all tenants a fifth."""
        return cls(max(1, pool_size // 10), max(2, pool_size // 5))

    @asynccontextmanager
    async def acquire_slot(
        self,
        tenant_id: UUID,
        calls: Sequence[RetrieverQuery],
        *,
        remaining_seconds: float,
        database_timeout_seconds: float,
    ) -> AsyncIterator[None]:
        """Let light calls pass, and give expensive ones their turn.

        Args:
            tenant_id: the searching tenant.
            calls: what the search asks the lanes.
            remaining: seconds that are left of the search.
            database_seconds: seconds that the first try of the lanes gets at most.

        Raises:
            FilterTooExpensive: an earlier filter of no more weight needed more time than this search has.
            RateLimitExceeded: the tenant's other expensive searches took all the time that this one could wait.
        """
        weight = sum(call.filter.weight for call in calls)
        if weight < MIN_WEIGHT and len(calls) <= MAX_LIGHT_CALLS:
            yield
            return
        self._refuse_expensive_filter(tenant_id, calls, weight, database_timeout_seconds)
        if self._is_light(tenant_id, calls):
            yield
            return
        await self._wait_for_slot(tenant_id, remaining_seconds * MAX_WAIT_SHARE)
        try:
            self._refuse_expensive_filter(tenant_id, calls, weight, database_timeout_seconds)
            yield
        finally:
            self._running[tenant_id] -= 1
            if not self._running[tenant_id]:
                del self._running[tenant_id]
            self._wake_waiters()

    def record_cost(
        self, tenant_id: UUID, calls: Sequence[RetrieverQuery], elapsed_seconds: float, *, timed_out: bool
    ) -> None:
        """Remember what the lanes took for these calls; after ``timed_out`` they would have taken longer."""
        weight = sum(call.filter.weight for call in calls)
        if weight < MIN_WEIGHT:
            return
        for key in {_build_cost_key(tenant_id, call) for call in calls}:
            self._costs[key] = _Cost(
                elapsed_seconds * (TIMEOUT_COST_FACTOR if timed_out else 1.0) / weight, self.clock(), timed_out
            )
            self._costs.move_to_end(key)
        while len(self._costs) > MAX_CACHED_COSTS:
            self._costs.popitem(last=False)

    def _get_cached_costs(self, tenant_id: UUID, calls: Sequence[RetrieverQuery]) -> list[_Cost | None]:
        """Return the cost of each call's filter; None for a filter of no weight, and for an unknown cost."""
        now, costs = self.clock(), []
        for call in calls:
            cost = self._costs.get(_build_cost_key(tenant_id, call))
            costs.append(cost if cost is not None and now - cost.measured_at < COST_TTL_SECONDS else None)
        return costs

    def _is_light(self, tenant_id: UUID, calls: Sequence[RetrieverQuery]) -> bool:
        if len(calls) > MAX_LIGHT_CALLS:
            return False
        expected = 0.0
        for call, cost in zip(calls, self._get_cached_costs(tenant_id, calls), strict=True):
            if cost is None or cost.timed_out:
                return False
            expected += call.filter.weight * cost.seconds_per_weight
        return expected <= MAX_LIGHT_SECONDS

    def _refuse_expensive_filter(
        self, tenant_id: UUID, calls: Sequence[RetrieverQuery], weight: float, database_timeout_seconds: float
    ) -> None:
        if weight < MIN_REFUSED_WEIGHT * len(calls):
            return
        cached_costs = self._get_cached_costs(tenant_id, calls)
        if not any(cost is not None and cost.timed_out for cost in cached_costs):
            return
        expected = sum(
            call.filter.weight * cost.seconds_per_weight
            for call, cost in zip(calls, cached_costs, strict=True)
            if cost is not None
        )
        if expected >= database_timeout_seconds:
            raise FilterTooExpensive(
                f"This filter needs more than {database_timeout_seconds:.1f} s of the database. "
                'Use fewer "contains" and "ends_with", shorter lists, or shorter metadata, '
                "or name fewer knowledge bases.",
                loc=("body", "filter"),
            )

    async def _wait_for_slot(self, tenant_id: UUID, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while self._running[tenant_id] >= self.max_per_tenant or self._running.total() >= self.max_per_process:
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError as exc:
            raise RateLimitExceeded(
                "Searches with expensive filters, or in very many knowledge bases, run one at a time for each tenant. "
                "Send fewer of them at once.",
                retry_after=1.0,
                limit=self.max_per_tenant,
            ) from exc
        self._running[tenant_id] += 1

    def _wake_waiters(self) -> None:
        """Have all waiting searches look again, the first one first."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _build_cost_key(tenant_id: UUID, call: RetrieverQuery) -> _CostKey:
    return tenant_id, call.index_id, call.vector is not None and not call.only_similarity

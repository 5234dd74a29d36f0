"""Cost control of expensive searches: refusal of filters by measured costs, and a limit on concurrent searches."""

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

# Filters below this weight are not measured: equality, ranges, short lists.
MIN_WEIGHT = 8.0
# Filters below this weight wait for a slot, but are never refused: a few patterns, a list of some hundred values.
MIN_REFUSED_WEIGHT = 45.0
# Maximum expected database seconds of a search that needs no slot.
MAX_LIGHT_SECONDS = 0.25
# Maximum number of retriever queries (queries times search indexes) of a search that needs no slot.
MAX_LIGHT_CALLS = 100
# Seconds for which a measured cost is valid, and the maximum number of cached costs in a process.
COST_TTL_SECONDS, MAX_CACHED_COSTS = 60.0, 10_000
# Factor on the elapsed time of a statement that timed out: the statement would have taken longer.
TIMEOUT_COST_FACTOR = 1.25
# Share of its remaining time that a search waits for a slot.
MAX_WAIT_SHARE = 0.5


class FilterTooExpensive(InvalidInputError):
    """The filter needs more database time than the search has."""

    code = "filter_too_expensive"


# Key of a measured cost: tenant, search index, and whether the dense retriever runs. The dense retriever reads more
# rows than the lexical retriever.
_CostKey = tuple[UUID, UUID, bool]


class _Cost(NamedTuple):
    """Measured cost of a filter.

    Attributes:
        seconds_per_weight: Database seconds for one unit of ``CompiledFilter.weight``.
        measured_at: Time of the measurement, by ``SearchCosts.clock``.
        timed_out: Whether the statement timed out.
    """

    seconds_per_weight: float
    measured_at: float
    timed_out: bool


@dataclass(slots=True)
class SearchCosts:
    """Measured costs of filters, and slots for expensive searches, shared by all searches of a process.

    Attributes:
        max_per_tenant: Maximum number of expensive searches of one tenant at the same time.
        max_per_process: Maximum number of expensive searches of all tenants at the same time.
        clock: Monotonic clock in seconds.
    """

    max_per_tenant: int = 1
    max_per_process: int = 2
    clock: Callable[[], float] = time.monotonic
    _costs: OrderedDict[_CostKey, _Cost] = field(default_factory=OrderedDict)
    _running: Counter[UUID] = field(default_factory=Counter)
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @classmethod
    def from_pool_size(cls, pool_size: int) -> Self:
        """Create limits from the size of the connection pool: a tenth for one tenant, and a fifth for all tenants."""
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
        """Occupy a slot while the block runs if the search is expensive. Other searches need no slot.

        Args:
            tenant_id: Tenant of the search.
            calls: Retriever queries of the search.
            remaining_seconds: Time until the deadline of the search. The search waits for a slot for at most half of
                this time.
            database_timeout_seconds: Maximum database time of the first attempt.

        Raises:
            FilterTooExpensive: An earlier search timed out, and its cost predicts that this filter needs too much time.
            RateLimitExceeded: No slot became free in time.
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
        """Record the time that the retrievers took for these calls.

        Args:
            tenant_id: Tenant of the search.
            calls: Retriever queries of the search.
            elapsed_seconds: Time of the statement.
            timed_out: Whether the statement was cancelled at its time limit, so that its real cost is higher.
        """
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
        """Return the cost of each call's filter; None if the cost is unknown or too old."""
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
                f"This filter needs more than {database_timeout_seconds:.1f} s of database time. "
                'Use fewer "contains" and "ends_with" conditions, shorter lists or shorter metadata, '
                "or search fewer knowledge bases.",
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
                "Too many searches with expensive filters or very many knowledge bases run at the same time. "
                "Send fewer of them at once.",
                retry_after=1.0,
                limit=self.max_per_tenant,
            ) from exc
        self._running[tenant_id] += 1

    def _wake_waiters(self) -> None:
        """Wake all waiting searches in their order of arrival; each checks again whether a slot is free."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _build_cost_key(tenant_id: UUID, call: RetrieverQuery) -> _CostKey:
    return tenant_id, call.index_id, call.vector is not None and not call.only_similarity

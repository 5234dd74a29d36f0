"""Costs of filters: weighed before a search runs by the costs of earlier ones; expensive searches take turns."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

from app.errors import InvalidInput
from app.quotas.types import RateLimited
from app.retrieval.repository import LaneCall

# A filter of less weight is never looked at: equality, ranges, short lists.
MIN_WEIGHT = 8.0
# A filter of less weight runs in its turn, and is not refused: a few patterns, a list of some hundred values.
MIN_REFUSED_WEIGHT = 45.0
# Expected seconds of the database up to which a search waits for nobody.
LIGHT_SECONDS = 0.25
# Lane queries (queries times search indexes) of one search up to which it waits for nobody.
MAX_LIGHT_CALLS = 100
# How long a measured cost counts, and of how many search indexes one process knows it.
KNOWN_SECONDS, MAX_KNOWN = 60.0, 10_000
# A filter whose time ran out is taken to need this many times that time: it would have gone on.
UNFINISHED = 1.25
# The part of its remaining time that a search waits for its turn.
WAIT = 0.5


class FilterTooExpensive(InvalidInput):
    """The filter is too expensive."""

    code = "filter_too_expensive"


# Of a tenant, in a search index, with or without the dense lane: that one looks at more rows.
_Place = tuple[UUID, UUID, bool]


class _Cost(NamedTuple):
    """Seconds of the database per unit of weight, when they were measured, and whether the time ran out."""

    seconds: float
    measured_at: float
    ran_out: bool


@dataclass(slots=True)
class SearchCosts:
    """The measured costs of filters, and the turns of expensive searches. One for all searches of a process.

    Args:
        per_tenant: expensive searches of one tenant that run at once.
        per_process: the same of all tenants.
    """

    per_tenant: int = 1
    per_process: int = 2
    clock: Callable[[], float] = time.monotonic
    _costs: OrderedDict[_Place, _Cost] = field(default_factory=OrderedDict)
    _running: Counter[UUID] = field(default_factory=Counter)
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    @classmethod
    def of(cls, pool_size: int) -> Self:
        """Give one tenant a tenth of the pool, and all tenants a fifth."""
        return cls(max(1, pool_size // 10), max(2, pool_size // 5))

    @asynccontextmanager
    async def admitted(
        self, tenant_id: UUID, calls: Sequence[LaneCall], *, remaining: float, database_seconds: float
    ) -> AsyncIterator[None]:
        """Let light calls pass, and give expensive ones their turn.

        Args:
            tenant_id: the searching tenant.
            calls: what the search asks the lanes.
            remaining: seconds that are left of the search.
            database_seconds: seconds that the first try of the lanes gets at most.

        Raises:
            FilterTooExpensive: an earlier filter of no more weight needed more time than this search has.
            RateLimited: the tenant's other expensive searches took all the time that this one could wait.
        """
        weight = sum(call.filter.weight for call in calls)
        if weight < MIN_WEIGHT and len(calls) <= MAX_LIGHT_CALLS:
            yield
            return
        self._refuse(tenant_id, calls, weight, database_seconds)
        if self._is_light(tenant_id, calls):
            yield
            return
        await self._take_turn(tenant_id, remaining * WAIT)
        try:
            self._refuse(tenant_id, calls, weight, database_seconds)
            yield
        finally:
            self._running[tenant_id] -= 1
            if not self._running[tenant_id]:
                del self._running[tenant_id]
            self._wake()

    def note(self, tenant_id: UUID, calls: Sequence[LaneCall], seconds: float, *, ran_out: bool) -> None:
        """Remember what the lanes took for these calls; after ``ran_out`` they would have taken longer."""
        weight = sum(call.filter.weight for call in calls)
        if weight < MIN_WEIGHT:
            return
        for place in {_place(tenant_id, call) for call in calls}:
            self._costs[place] = _Cost(seconds * (UNFINISHED if ran_out else 1.0) / weight, self.clock(), ran_out)
            self._costs.move_to_end(place)
        while len(self._costs) > MAX_KNOWN:
            self._costs.popitem(last=False)

    def _known(self, tenant_id: UUID, calls: Sequence[LaneCall]) -> list[_Cost | None]:
        """Return the cost of each call's filter; None for a filter of no weight, and for an unknown cost."""
        now, found = self.clock(), []
        for call in calls:
            cost = self._costs.get(_place(tenant_id, call))
            found.append(cost if cost is not None and now - cost.measured_at < KNOWN_SECONDS else None)
        return found

    def _is_light(self, tenant_id: UUID, calls: Sequence[LaneCall]) -> bool:
        if len(calls) > MAX_LIGHT_CALLS:
            return False
        expected = 0.0
        for call, cost in zip(calls, self._known(tenant_id, calls), strict=True):
            if cost is None or cost.ran_out:
                return False
            expected += call.filter.weight * cost.seconds
        return expected <= LIGHT_SECONDS

    def _refuse(self, tenant_id: UUID, calls: Sequence[LaneCall], weight: float, database_seconds: float) -> None:
        if weight < MIN_REFUSED_WEIGHT * len(calls):
            return
        known = self._known(tenant_id, calls)
        if not any(cost is not None and cost.ran_out for cost in known):
            return
        expected = sum(
            call.filter.weight * cost.seconds for call, cost in zip(calls, known, strict=True) if cost is not None
        )
        if expected >= database_seconds:
            raise FilterTooExpensive(
                f"This filter needs more than {database_seconds:.1f} s of the database. "
                'Use fewer "contains" and "ends_with", shorter lists, or shorter metadata, '
                "or name fewer knowledge bases.",
                loc=("body", "filter"),
            )

    async def _take_turn(self, tenant_id: UUID, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._running[tenant_id] >= self.per_tenant or self._running.total() >= self.per_process:
                    turn = asyncio.get_running_loop().create_future()
                    self._waiting.append(turn)
                    await turn
        except TimeoutError as exc:
            raise RateLimited(
                "Searches with expensive filters, or in very many knowledge bases, run one at a time for each tenant. "
                "Send fewer of them at once.",
                retry_after=1.0,
                limit=self.per_tenant,
            ) from exc
        self._running[tenant_id] += 1

    def _wake(self) -> None:
        """Have all waiting searches look again, the first one first."""
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)


def _place(tenant_id: UUID, call: LaneCall) -> _Place:
    return tenant_id, call.index_id, call.vector is not None and not call.only_similarity

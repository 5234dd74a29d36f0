"""Limits of one process: searches a second, searches at once and event streams, by tenant and by key, in memory."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Literal
from uuid import UUID

from app.access import Principal
from app.quotas.rates import BURST_SECONDS, MOST_BUCKETS
from app.quotas.types import NO_KEY, RateLimited, RateState

Kind = Literal["concurrent_searches", "event_streams"]
NAMES: dict[Kind, str] = {"concurrent_searches": "searches at once", "event_streams": "event streams at once"}
RETRY_SECONDS: dict[Kind, float] = {"concurrent_searches": 1.0, "event_streams": 30.0}


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class LocalLimits:
    """Defaults for tenants without quotas, and what every tenant and key uses in this process now.

    The default rate is a token bucket in memory, so that a search asks the database nothing for it.
    """

    searches_per_second: float
    concurrent_searches: int
    event_streams: int
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[UUID, _Bucket] = field(default_factory=dict)
    _used: Counter[tuple[Kind, UUID, UUID]] = field(default_factory=Counter)

    def take_search(self, tenant_id: UUID) -> RateState:
        """Take one search from the tenant's default rate. Raises RateLimited."""
        rate, now = self.searches_per_second, self.clock()
        burst = max(1.0, rate * BURST_SECONDS)
        self._forget(now)
        bucket = self._buckets.setdefault(tenant_id, _Bucket(burst, now))
        bucket.tokens = min(burst, bucket.tokens + rate * (now - bucket.filled_at))
        bucket.filled_at = now
        if bucket.tokens < 1:
            raise RateLimited(retry_after=max((1 - bucket.tokens) / rate, 0.001), limit=floor(burst))
        bucket.tokens -= 1
        return RateState(floor(burst), floor(bucket.tokens), ceil((burst - bucket.tokens) / rate))

    def limit(self, principal: Principal, kind: Kind) -> int:
        """Return the tenant's limit of what it uses at once in one process."""
        own: int | None = getattr(principal.quotas, kind)
        default: int = getattr(self, kind)
        return default if own is None else own

    @contextmanager
    def using(self, principal: Principal, kind: Kind) -> Iterator[None]:
        """Count one search or one stream until the end of the block. Raises RateLimited."""
        held: list[tuple[Kind, UUID, UUID]] = []
        of_key: int | None = getattr(principal.key_quotas, kind)
        limits = [(NO_KEY, self.limit(principal, kind), "tenant")]
        if of_key is not None and principal.line_id is not None:
            limits.append((principal.line_id, of_key, "key"))
        try:
            for owner, limit, whose in limits:
                place = (kind, principal.tenant_id, owner)
                if self._used[place] >= limit:
                    raise _refusal(kind, limit, whose)
                self._used[place] += 1
                held.append(place)
            yield
        finally:
            for place in held:
                self._used[place] -= 1
                if not self._used[place]:
                    del self._used[place]

    def _forget(self, now: float) -> None:
        if len(self._buckets) > MOST_BUCKETS:
            full = [tenant for tenant, one in self._buckets.items() if now - one.filled_at > BURST_SECONDS]
            for tenant in full:
                del self._buckets[tenant]


def _refusal(kind: Kind, limit: int, whose: str) -> RateLimited:
    message = (
        f"This {whose} has {limit} {NAMES[kind]}, which is its limit: "
        "wait until one ends, or ask the operator for more."
    )
    return RateLimited(message, retry_after=RETRY_SECONDS[kind], limit=limit, quota=kind)

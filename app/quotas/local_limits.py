"""Limits of one process, in memory: search rate, parallel searches and event streams of each tenant and key."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Literal
from uuid import UUID

from app.principal import Principal
from app.quotas.rate_limit import BURST_SECONDS, MAX_BUCKETS
from app.quotas.types import NO_KEY, RateLimitExceeded, RateLimitState

LocalLimitKind = Literal["concurrent_searches", "event_streams"]
LIMIT_LABELS: dict[LocalLimitKind, str] = {
    "concurrent_searches": "searches at once",
    "event_streams": "event streams at once",
}
RETRY_AFTER_SECONDS: dict[LocalLimitKind, float] = {"concurrent_searches": 1.0, "event_streams": 30.0}


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class LocalLimits:
    """Default limits of tenants without quotas, and the present usage of each tenant and key in this process.

    The default rate is a token bucket in memory, so that a search needs no database query for it.
    """

    searches_per_second: float
    concurrent_searches: int
    event_streams: int
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[UUID, _TokenBucket] = field(default_factory=dict)
    _in_use: Counter[tuple[LocalLimitKind, UUID, UUID]] = field(default_factory=Counter)

    def acquire_search(self, tenant_id: UUID) -> RateLimitState:
        """Count one search against the default rate limit of a tenant.

        Args:
            tenant_id: The tenant.

        Returns:
            The state of the rate limit after the search.

        Raises:
            RateLimitExceeded: The rate limit is reached.
        """
        rate, now = self.searches_per_second, self.clock()
        burst = max(1.0, rate * BURST_SECONDS)
        self._drop_full_buckets(now)
        bucket = self._buckets.setdefault(tenant_id, _TokenBucket(burst, now))
        bucket.tokens = min(burst, bucket.tokens + rate * (now - bucket.filled_at))
        bucket.filled_at = now
        if bucket.tokens < 1:
            raise RateLimitExceeded(retry_after=max((1 - bucket.tokens) / rate, 0.001), limit=floor(burst))
        bucket.tokens -= 1
        return RateLimitState(floor(burst), floor(bucket.tokens), ceil((burst - bucket.tokens) / rate))

    def get_limit(self, principal: Principal, kind: LocalLimitKind) -> int:
        """Return the tenant's limit of parallel searches or event streams in one process."""
        tenant_limit: int | None = getattr(principal.quotas, kind)
        default: int = getattr(self, kind)
        return default if tenant_limit is None else tenant_limit

    @contextmanager
    def track(self, principal: Principal, kind: LocalLimitKind) -> Iterator[None]:
        """Count one search or event stream until the end of the block.

        Args:
            principal: The caller.
            kind: The limit to check.

        Raises:
            RateLimitExceeded: The tenant or the key has reached its limit.
        """
        counted: list[tuple[LocalLimitKind, UUID, UUID]] = []
        key_limit: int | None = getattr(principal.key_quotas, kind)
        limits = [(NO_KEY, self.get_limit(principal, kind), "tenant")]
        if key_limit is not None and principal.key_lineage_id is not None:
            limits.append((principal.key_lineage_id, key_limit, "key"))
        try:
            for owner, limit, owner_kind in limits:
                counter_key = (kind, principal.tenant_id, owner)
                if self._in_use[counter_key] >= limit:
                    raise _build_error(kind, limit, owner_kind)
                self._in_use[counter_key] += 1
                counted.append(counter_key)
            yield
        finally:
            for counter_key in counted:
                self._in_use[counter_key] -= 1
                if not self._in_use[counter_key]:
                    del self._in_use[counter_key]

    def _drop_full_buckets(self, now: float) -> None:
        if len(self._buckets) > MAX_BUCKETS:
            full = [tenant for tenant, bucket in self._buckets.items() if now - bucket.filled_at > BURST_SECONDS]
            for tenant in full:
                del self._buckets[tenant]


def _build_error(kind: LocalLimitKind, limit: int, owner_kind: str) -> RateLimitExceeded:
    message = (
        f"This {owner_kind} has {limit} {LIMIT_LABELS[kind]}, which is its limit. "
        "Wait until one ends, or ask the operator for more."
    )
    return RateLimitExceeded(message, retry_after=RETRY_AFTER_SECONDS[kind], limit=limit, quota=kind)

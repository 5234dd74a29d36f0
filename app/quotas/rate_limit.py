"""Searches a second: token buckets in the database that all processes share; a busy one takes some ahead."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, floor
from uuid import UUID

from app.db.session import Database
from app.quotas.repository import QuotaRepository
from app.quotas.types import RateLimitExceeded, RateLimitState

# A bucket holds the rate of this many seconds: the longest burst.
BURST_SECONDS = 2.0
# What a process took ahead is lost after this time, and is at most what comes in it: so no process keeps much from
# the others, and a busy one asks the database four times a second.
PREFETCH_WINDOW_SECONDS = 0.25
MAX_BUCKETS = 10_000


@dataclass(slots=True)
class LocalBucket:
    """The part of a bucket that one process has taken."""

    remaining: float = 0.0
    expires_at: float = 0.0
    requested: int = 1
    shared_remaining: float = 0.0
    refused_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class SearchRateLimiter:
    """The buckets as one process sees them; one for all of its requests."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[tuple[UUID, UUID], LocalBucket] = field(default_factory=dict)

    async def acquire(self, tenant_id: UUID, bucket_id: UUID, rate: float) -> RateLimitState:
        """Take one search from the bucket, which fills by ``rate`` a second.

        Raises RateLimitExceeded, DatabaseUnavailable.
        """
        self._drop_idle_buckets()
        local_bucket = self._buckets.setdefault((tenant_id, bucket_id), LocalBucket())
        burst = max(1.0, rate * BURST_SECONDS)
        async with local_bucket.lock:
            now = self.clock()
            if local_bucket.refused_until > now:
                raise _build_error(burst, local_bucket.refused_until - now)
            if local_bucket.remaining < 1 or local_bucket.expires_at <= now:
                await self._prefetch(local_bucket, tenant_id, bucket_id, rate)
            if local_bucket.remaining < 1:
                wait = (1 - local_bucket.shared_remaining) / rate
                local_bucket.refused_until = self.clock() + wait
                raise _build_error(burst, wait)
            local_bucket.remaining -= 1
            remaining = local_bucket.remaining + local_bucket.shared_remaining
            return RateLimitState(floor(burst), floor(remaining), ceil((burst - remaining) / rate))

    def release(self, tenant_id: UUID, bucket_id: UUID, rate: float) -> None:
        """One that was taken just now was not used; it is kept for as long as another takes to come."""
        local_bucket = self._buckets.get((tenant_id, bucket_id))
        if local_bucket is not None:
            local_bucket.remaining += 1
            local_bucket.expires_at = max(local_bucket.expires_at, self.clock() + 1 / rate)

    async def _prefetch(self, local_bucket: LocalBucket, tenant_id: UUID, bucket_id: UUID, rate: float) -> None:
        """Take tokens from the shared bucket: twice as many as the last time if those are used up, else one."""
        is_busy = local_bucket.remaining < 1 and self.clock() < local_bucket.expires_at
        max_prefetch = max(1, floor(rate * PREFETCH_WINDOW_SECONDS))
        local_bucket.requested = min(max_prefetch, local_bucket.requested * 2) if is_busy else 1
        async with self.database.transaction(tenant_id) as session:
            grant = await QuotaRepository(session, tenant_id).acquire(
                bucket_id, requested=local_bucket.requested, rate=rate, burst=max(1.0, rate * BURST_SECONDS)
            )
        local_bucket.remaining, local_bucket.shared_remaining = grant.granted, max(0.0, grant.tokens)
        local_bucket.expires_at = self.clock() + PREFETCH_WINDOW_SECONDS

    def _drop_idle_buckets(self) -> None:
        if len(self._buckets) > MAX_BUCKETS:
            now = self.clock()
            idle = [
                bucket_key
                for bucket_key, local_bucket in self._buckets.items()
                if local_bucket.expires_at < now and not local_bucket.lock.locked()
            ]
            for bucket_key in idle:
                del self._buckets[bucket_key]


def _build_error(burst: float, wait: float) -> RateLimitExceeded:
    return RateLimitExceeded(retry_after=max(wait, 0.001), limit=floor(burst))

"""Rate limits of searches: token buckets in the database, shared by all processes.

A busy process takes several tokens in advance.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, floor
from uuid import UUID

from app.db.session import Database
from app.quotas.repository import QuotaRepository
from app.quotas.types import RateLimitExceeded, RateLimitState

# The capacity of a bucket, in seconds of its rate. It limits the longest burst.
BURST_SECONDS = 2.0
# Tokens that a process took in advance expire after this time. A process takes in advance at most the tokens that
# arrive in this time. It therefore withholds few tokens from other processes, and queries the database at most four
# times per
# second.
PREFETCH_WINDOW_SECONDS = 0.25
MAX_BUCKETS = 10_000


@dataclass(slots=True)
class LocalBucket:
    """Tokens that one process has taken from a shared bucket."""

    remaining: float = 0.0
    expires_at: float = 0.0
    requested: int = 1
    shared_remaining: float = 0.0
    refused_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class SearchRateLimiter:
    """Rate limiter of searches. All requests of a process share one object."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[tuple[UUID, UUID], LocalBucket] = field(default_factory=dict)

    async def acquire(self, tenant_id: UUID, bucket_id: UUID, rate: float) -> RateLimitState:
        """Take one search from a bucket.

        Args:
            tenant_id: The tenant.
            bucket_id: The id of the key's lineage (its first key before rotations), or ``NO_KEY`` for the tenant.
            rate: The tokens per second with which the bucket fills.

        Returns:
            The state of the bucket after the search.

        Raises:
            RateLimitExceeded: The bucket is empty.
            DatabaseUnavailable: The database does not answer.
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
        """Return a token that was taken but not used. It stays valid for the time in which a new token arrives."""
        local_bucket = self._buckets.get((tenant_id, bucket_id))
        if local_bucket is not None:
            local_bucket.remaining += 1
            local_bucket.expires_at = max(local_bucket.expires_at, self.clock() + 1 / rate)

    async def _prefetch(self, local_bucket: LocalBucket, tenant_id: UUID, bucket_id: UUID, rate: float) -> None:
        """Take tokens from the shared bucket: twice the last number if all were used in time, otherwise one."""
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

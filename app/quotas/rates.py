"""Searches a second: token buckets in the database that all processes share; a busy one takes some ahead."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, floor
from uuid import UUID

from app.db.session import Database
from app.quotas.repository import QuotaRepository
from app.quotas.types import RateLimited, RateState

# A bucket holds what comes in so many seconds: that is the longest burst.
BURST_SECONDS = 2.0
# What a process took ahead is lost after this time, and is at most what comes in it: so no process keeps much from
# the others, and a busy one asks the database four times a second.
AHEAD_SECONDS = 0.25
MOST_BUCKETS = 10_000


@dataclass(slots=True)
class Share:
    """What one process has taken of a bucket."""

    left: float = 0.0
    until: float = 0.0
    asked: int = 1
    shared: float = 0.0
    refused_until: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Rates:
    """The buckets as one process sees them; one for all of its requests."""

    database: Database
    clock: Callable[[], float] = time.monotonic
    _shares: dict[tuple[UUID, UUID], Share] = field(default_factory=dict)

    async def take(self, tenant_id: UUID, bucket: UUID, rate: float) -> RateState:
        """One search of the bucket, which fills by ``rate`` a second. Raises RateLimited, DatabaseUnavailable."""
        self._forget()
        share = self._shares.setdefault((tenant_id, bucket), Share())
        burst = max(1.0, rate * BURST_SECONDS)
        async with share.turn:
            now = self.clock()
            if share.refused_until > now:
                raise _refusal(burst, share.refused_until - now)
            if share.left < 1 or share.until <= now:
                await self._take_ahead(share, tenant_id, bucket, rate)
            if share.left < 1:
                wait = (1 - share.shared) / rate
                share.refused_until = self.clock() + wait
                raise _refusal(burst, wait)
            share.left -= 1
            held = share.left + share.shared
            return RateState(floor(burst), floor(held), ceil((burst - held) / rate))

    def give_back(self, tenant_id: UUID, bucket: UUID, rate: float) -> None:
        """One that was taken just now was not used; it is kept for as long as another takes to come."""
        share = self._shares.get((tenant_id, bucket))
        if share is not None:
            share.left += 1
            share.until = max(share.until, self.clock() + 1 / rate)

    async def _take_ahead(self, share: Share, tenant_id: UUID, bucket: UUID, rate: float) -> None:
        """Twice as many as the last time where those are used up, else one."""
        is_busy = share.left < 1 and self.clock() < share.until
        most = max(1, floor(rate * AHEAD_SECONDS))
        share.asked = min(most, share.asked * 2) if is_busy else 1
        async with self.database.transaction(tenant_id) as session:
            grant = await QuotaRepository(session, tenant_id).take(
                bucket, asked=share.asked, rate=rate, burst=max(1.0, rate * BURST_SECONDS)
            )
        share.left, share.shared = grant.granted, max(0.0, grant.tokens)
        share.until = self.clock() + AHEAD_SECONDS

    def _forget(self) -> None:
        if len(self._shares) > MOST_BUCKETS:
            now = self.clock()
            idle = [place for place, share in self._shares.items() if share.until < now and not share.turn.locked()]
            for place in idle:
                del self._shares[place]


def _refusal(burst: float, wait: float) -> RateLimited:
    return RateLimited(retry_after=max(wait, 0.001), limit=floor(burst))

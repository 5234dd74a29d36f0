"""Shares of the connection pool: each tenant is lent a part of it at most, and waiting tenants are served in turn."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT

# Connections that no tenant is lent: sign-in, claims of jobs and health checks never wait for a tenant's work.
RESERVED = 2
MIN_SHARE = 2
# One tenant is lent a third of the pool: the more of its transactions run, the longer others wait for a processor.
SHARES = 3


def _nothing() -> None:
    pass


@dataclass(slots=True)
class PoolShares:
    """Admission of tenants to the pool. A place is taken before a connection, and given back after it.

    Args:
        capacity: connections that all tenants together are lent.
        share: connections that one tenant is lent at most.
        timeout_seconds: how long one transaction waits for its place.
    """

    capacity: int
    share: int
    timeout_seconds: float
    _lent: Counter[UUID] = field(default_factory=Counter)
    _total: int = 0
    _waiting: OrderedDict[UUID, deque[asyncio.Future[None]]] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, connections: int, *, timeout_seconds: float) -> Self:
        """Divide a pool with this maximum number of connections."""
        return cls(max(MIN_SHARE, connections - RESERVED), max(MIN_SHARE, connections // SHARES), timeout_seconds)

    async def admit(self, tenant_id: UUID | None) -> Callable[[], None]:
        """Wait for a place and return the function that gives it back; the service itself needs none.

        Raises TimeoutError.
        """
        if tenant_id is None or tenant_id == SYSTEM_TENANT:
            return _nothing
        if self._total < self.capacity and self._lent[tenant_id] < self.share and tenant_id not in self._waiting:
            self._lend(tenant_id)
        else:
            await self._wait(tenant_id)
        return _Place(self, tenant_id).give_back

    async def _wait(self, tenant_id: UUID) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        try:
            async with asyncio.timeout(self.timeout_seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # the place was lent in the same moment
                self._take_back(tenant_id)
            elif turn in (turns := self._waiting.get(tenant_id, deque())):
                turns.remove(turn)
                self._forget(tenant_id)
            raise

    def _lend(self, tenant_id: UUID) -> None:
        self._lent[tenant_id] += 1
        self._total += 1

    def _take_back(self, tenant_id: UUID) -> None:
        self._lent[tenant_id] -= 1
        self._total -= 1
        if not self._lent[tenant_id]:
            del self._lent[tenant_id]
        self._serve()

    def _serve(self) -> None:
        """Lend free places to waiting tenants, one each before any gets a second."""
        while self._total < self.capacity:
            tenant_id = next((one for one in self._waiting if self._lent[one] < self.share), None)
            if tenant_id is None:
                return
            turns = self._waiting[tenant_id]
            turn = turns.popleft()
            self._waiting.move_to_end(tenant_id)
            self._forget(tenant_id)
            if not turn.done():
                self._lend(tenant_id)
                turn.set_result(None)

    def _forget(self, tenant_id: UUID) -> None:
        if not self._waiting[tenant_id]:
            del self._waiting[tenant_id]


@dataclass(slots=True)
class _Place:
    """A place in the pool, which is given back once."""

    shares: PoolShares
    tenant_id: UUID | None

    def give_back(self) -> None:
        if self.tenant_id is not None:
            tenant_id, self.tenant_id = self.tenant_id, None
            self.shares._take_back(tenant_id)

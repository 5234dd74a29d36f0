"""Shares of the connection pool. A tenant uses at most its share, and waiting tenants take turns."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from app.db.models.base import SYSTEM_TENANT

# Connections that no tenant may use: authentication, claims of jobs and health checks never wait for tenants.
RESERVED_CONNECTIONS = 2
MIN_SHARE = 2
# One tenant may use a third of the pool. With more transactions of one tenant, others would wait for a processor.
SHARE_DIVISOR = 3


def _do_nothing() -> None:
    pass


@dataclass(slots=True)
class PoolShares:
    """Limits on the connections that tenants use. A caller acquires a slot before a connection, and releases it after.

    Args:
        capacity: Maximum number of connections that all tenants use together.
        share: Maximum number of connections that one tenant uses.
        timeout_seconds: Maximum time that a transaction waits for a slot.
    """

    capacity: int
    share: int
    timeout_seconds: float
    _in_use: Counter[UUID] = field(default_factory=Counter)
    _total: int = 0
    _waiting: OrderedDict[UUID, deque[asyncio.Future[None]]] = field(default_factory=OrderedDict)

    @classmethod
    def from_pool_size(cls, connections: int, *, timeout_seconds: float) -> Self:
        """Create the shares of a pool with this maximum number of connections.

        Args:
            connections: Maximum number of connections of the pool.
            timeout_seconds: Maximum time that a transaction waits for a slot.
        """
        return cls(
            max(MIN_SHARE, connections - RESERVED_CONNECTIONS),
            max(MIN_SHARE, connections // SHARE_DIVISOR),
            timeout_seconds,
        )

    async def acquire(self, tenant_id: UUID | None) -> Callable[[], None]:
        """Wait for a slot of a tenant.

        Args:
            tenant_id: The tenant. None and the system tenant never wait.

        Returns:
            The function that releases the slot.

        Raises:
            TimeoutError: No slot became free in time.
        """
        if tenant_id is None or tenant_id == SYSTEM_TENANT:
            return _do_nothing
        if self._total < self.capacity and self._in_use[tenant_id] < self.share and tenant_id not in self._waiting:
            self._grant(tenant_id)
        else:
            await self._wait_for_share(tenant_id)
        return _PoolSlot(self, tenant_id).release

    async def _wait_for_share(self, tenant_id: UUID) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(waiter)
        try:
            async with asyncio.timeout(self.timeout_seconds):
                await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():  # the slot was granted at the same moment
                self._release(tenant_id)
            elif waiter in (waiters := self._waiting.get(tenant_id, deque())):
                waiters.remove(waiter)
                self._remove_if_idle(tenant_id)
            raise

    def _grant(self, tenant_id: UUID) -> None:
        self._in_use[tenant_id] += 1
        self._total += 1

    def _release(self, tenant_id: UUID) -> None:
        self._in_use[tenant_id] -= 1
        self._total -= 1
        if not self._in_use[tenant_id]:
            del self._in_use[tenant_id]
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Grant free slots to waiting tenants in turn, one slot per turn."""
        while self._total < self.capacity:
            tenant_id = next((candidate for candidate in self._waiting if self._in_use[candidate] < self.share), None)
            if tenant_id is None:
                return
            waiters = self._waiting[tenant_id]
            waiter = waiters.popleft()
            self._waiting.move_to_end(tenant_id)
            self._remove_if_idle(tenant_id)
            if not waiter.done():
                self._grant(tenant_id)
                waiter.set_result(None)

    def _remove_if_idle(self, tenant_id: UUID) -> None:
        if not self._waiting[tenant_id]:
            del self._waiting[tenant_id]


@dataclass(slots=True)
class _PoolSlot:
    """A slot of a tenant. Releasing it twice has no effect."""

    shares: PoolShares
    tenant_id: UUID | None

    def release(self) -> None:
        if self.tenant_id is not None:
            tenant_id, self.tenant_id = self.tenant_id, None
            self.shares._release(tenant_id)

"""Slots for work that needs much memory: limits for this process and for each tenant."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from app.errors import TooManyRequestsError, UnavailableError

RETRY_AFTER_SECONDS = 10.0


@dataclass(slots=True)
class TenantSlots:
    """Slots of one kind of work. Further work waits for a slot.

    Attributes:
        max_slots: Number of slots in this process.
        max_slots_per_tenant: Maximum number of slots of one tenant.
        wait_timeout_seconds: Maximum time that work waits for a slot.
        tenant_limit_error: Error if the tenant uses all its slots.
        busy_error: Error if all slots are in use.
    """

    max_slots: int
    max_slots_per_tenant: int
    wait_timeout_seconds: float
    tenant_limit_error: type[TooManyRequestsError]
    busy_error: type[UnavailableError]
    _acquired: Counter[UUID] = field(default_factory=Counter)
    _waiting: list[asyncio.Event] = field(default_factory=list)

    @asynccontextmanager
    async def acquire(self, tenant_id: UUID) -> AsyncIterator[None]:
        """Wait for a slot, and hold the slot for this block.

        Args:
            tenant_id: Tenant of the work.

        Raises:
            TooManyRequestsError: ``tenant_limit_error``, if the tenant's slots were in use for too long.
            UnavailableError: ``busy_error``, if all slots were in use for too long.
        """
        await self._wait_for_slot(tenant_id)
        self._acquired[tenant_id] += 1
        try:
            yield
        finally:
            self._acquired[tenant_id] -= 1
            if not self._acquired[tenant_id]:
                del self._acquired[tenant_id]
            for waiter in self._waiting:
                waiter.set()

    @property
    def acquired_count(self) -> int:
        """Number of slots in use."""
        return self._acquired.total()

    async def _wait_for_slot(self, tenant_id: UUID) -> None:
        deadline = asyncio.get_running_loop().time() + self.wait_timeout_seconds
        while not self._has_free_slot(tenant_id):
            waiter = asyncio.Event()
            self._waiting.append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter.wait()
            except TimeoutError:
                raise self._build_error(tenant_id) from None
            finally:
                self._waiting.remove(waiter)

    def _has_free_slot(self, tenant_id: UUID) -> bool:
        return self._acquired.total() < self.max_slots and self._acquired[tenant_id] < self.max_slots_per_tenant

    def _build_error(self, tenant_id: UUID) -> TooManyRequestsError | UnavailableError:
        error_type = (
            self.tenant_limit_error if self._acquired[tenant_id] >= self.max_slots_per_tenant else self.busy_error
        )
        return error_type(retry_after=RETRY_AFTER_SECONDS)

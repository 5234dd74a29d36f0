"""Places for work that takes memory: how much of it runs at a time in this process, and how much of one tenant."""

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
    """At most ``max_slots`` pieces of work at a time, ``max_slots_per_tenant`` of one tenant; a further one waits its
    turn.

    ``tenant_limit_error`` is raised for a tenant that has all of its places, ``busy_error`` if all places are taken.
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
        """Hold a place while the block runs.

        Raises ``tenant_limit_error`` if the tenant's places stay taken for ``wait_timeout_seconds``, ``busy_error`` if
        all do.
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
        """The number of places that are taken."""
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

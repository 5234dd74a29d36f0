"""Places for work that takes memory: how much of it runs at a time in this process, and how much of one tenant."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from app.errors import TooMany, Unavailable

RETRY_SECONDS = 10.0


@dataclass(slots=True)
class TenantPlaces:
    """At most ``most`` pieces of work at a time, ``most_a_tenant`` of one tenant; a further one waits its turn.

    ``too_many`` is raised for a tenant that has all of its places, ``busy`` if all places are taken.
    """

    most: int
    most_a_tenant: int
    wait_seconds: float
    too_many: type[TooMany]
    busy: type[Unavailable]
    _taken: Counter[UUID] = field(default_factory=Counter)
    _waiting: list[asyncio.Event] = field(default_factory=list)

    @asynccontextmanager
    async def take(self, tenant_id: UUID) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises ``too_many`` if the tenant's places stay taken for ``wait_seconds``, ``busy`` if all do.
        """
        await self._wait(tenant_id)
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]
            for each in self._waiting:
                each.set()

    @property
    def taken(self) -> int:
        """The number of places that are taken."""
        return self._taken.total()

    async def _wait(self, tenant_id: UUID) -> None:
        end = asyncio.get_running_loop().time() + self.wait_seconds
        while not self._is_free(tenant_id):
            turn = asyncio.Event()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout_at(end):
                    await turn.wait()
            except TimeoutError:
                raise self._refusal(tenant_id) from None
            finally:
                self._waiting.remove(turn)

    def _is_free(self, tenant_id: UUID) -> bool:
        return self._taken.total() < self.most and self._taken[tenant_id] < self.most_a_tenant

    def _refusal(self, tenant_id: UUID) -> TooMany | Unavailable:
        kind = self.too_many if self._taken[tenant_id] >= self.most_a_tenant else self.busy
        return kind(retry_after=RETRY_SECONDS)

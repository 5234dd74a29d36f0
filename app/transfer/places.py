"""Places for exports or imports: how many run at a time in this process, and how many of one tenant."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from app.settings import TransferSettings
from app.transfer.readers import Readers
from app.transfer.types import LARGE_BYTES, TooManyTransfers, TransfersBusy

RETRY_SECONDS = 10.0
# Documents that are held in memory at a time, of all tenants.
DOCUMENTS_AT_ONCE = 2


@dataclass(slots=True)
class Places:
    """At most ``most`` pieces of work at a time, ``most_a_tenant`` of one tenant; a further one waits its turn."""

    most: int
    most_a_tenant: int
    wait_seconds: float
    _taken: Counter[UUID] = field(default_factory=Counter)
    _waiting: list[asyncio.Event] = field(default_factory=list)

    @asynccontextmanager
    async def take(self, tenant_id: UUID) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises TooManyTransfers if the tenant's places stay taken for ``wait_seconds``, TransfersBusy if all do.
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

    def _refusal(self, tenant_id: UUID) -> TooManyTransfers | TransfersBusy:
        if self._taken[tenant_id] >= self.most_a_tenant:
            return TooManyTransfers(retry_after=RETRY_SECONDS)
        return TransfersBusy(retry_after=RETRY_SECONDS)


@dataclass(slots=True)
class ImportRoom:
    """Room for documents that are held in memory while they are imported: two small ones, or one large one."""

    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DOCUMENTS_AT_ONCE))
    _large: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Hold room for a document of so many bytes while the block runs."""
        async with AsyncExitStack() as stack:
            if size > LARGE_BYTES:  # one at a time takes all: two that have half of it would wait for ever
                await stack.enter_async_context(self._large)
            for _ in range(DOCUMENTS_AT_ONCE if size > LARGE_BYTES else 1):
                await stack.enter_async_context(self._free)
            yield


@dataclass(frozen=True, slots=True)
class TransferPlaces:
    """The places for exports and those for imports, the room for documents, and the processes that read them."""

    exports: Places
    imports: Places
    room: ImportRoom = field(default_factory=ImportRoom)
    readers: Readers = field(default_factory=Readers)

    @classmethod
    def of(cls, settings: TransferSettings) -> "TransferPlaces":
        """Create them as the settings say."""
        wait = settings.wait_seconds
        return cls(
            Places(settings.max_exports, settings.max_tenant_exports, wait),
            Places(settings.max_imports, settings.max_tenant_imports, wait),
        )

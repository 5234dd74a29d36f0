"""Places for exports or imports: how many run at a time in this process, and how many of one tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from app.settings import TransferSettings
from app.tenant_places import TenantPlaces
from app.transfer.readers import Readers
from app.transfer.types import LARGE_BYTES, TooManyTransfers, TransfersBusy

# Documents that are held in memory at a time, of all tenants.
DOCUMENTS_AT_ONCE = 2


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

    exports: TenantPlaces
    imports: TenantPlaces
    room: ImportRoom = field(default_factory=ImportRoom)
    readers: Readers = field(default_factory=Readers)

    @classmethod
    def of(cls, settings: TransferSettings) -> "TransferPlaces":
        """Create them as the settings say."""
        wait = settings.wait_seconds
        return cls(
            _places(settings.max_exports, settings.max_tenant_exports, wait),
            _places(settings.max_imports, settings.max_tenant_imports, wait),
        )


def _places(most: int, most_a_tenant: int, wait_seconds: float) -> TenantPlaces:
    return TenantPlaces(most, most_a_tenant, wait_seconds, TooManyTransfers, TransfersBusy)

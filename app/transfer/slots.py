"""Places for exports or imports: how many run at a time in this process, and how many of one tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from app.settings import TransferSettings
from app.tenant_slots import TenantSlots
from app.transfer.reader_pool import ArchiveReaderPool
from app.transfer.types import LARGE_DOCUMENT_BYTES, TooManyTransfers, TransfersBusy

# Documents that are held in memory at a time, of all tenants.
MAX_CONCURRENT_DOCUMENTS = 2


@dataclass(slots=True)
class ImportCapacity:
    """Room for documents that are held in memory while they are imported: two small ones, or one large one."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_DOCUMENTS))
    _large_document_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def acquire(self, size: int) -> AsyncIterator[None]:
        """Hold room for a document of so many bytes while the block runs."""
        async with AsyncExitStack() as stack:
            if size > LARGE_DOCUMENT_BYTES:  # one at a time takes all: two that have half of it would wait for ever
                await stack.enter_async_context(self._large_document_lock)
            for _ in range(MAX_CONCURRENT_DOCUMENTS if size > LARGE_DOCUMENT_BYTES else 1):
                await stack.enter_async_context(self._slots)
            yield


@dataclass(frozen=True, slots=True)
class TransferSlots:
    """The places for exports and those for imports, the room for documents, and the processes that read them."""

    exports: TenantSlots
    imports: TenantSlots
    capacity: ImportCapacity = field(default_factory=ImportCapacity)
    readers: ArchiveReaderPool = field(default_factory=ArchiveReaderPool)

    @classmethod
    def from_settings(cls, settings: TransferSettings) -> "TransferSlots":
        """Create them as the settings say."""
        wait_timeout_seconds = settings.wait_timeout_seconds
        return cls(
            _create_slots(settings.max_exports, settings.max_tenant_exports, wait_timeout_seconds),
            _create_slots(settings.max_imports, settings.max_tenant_imports, wait_timeout_seconds),
        )


def _create_slots(max_total: int, max_per_tenant: int, wait_timeout_seconds: float) -> TenantSlots:
    return TenantSlots(max_total, max_per_tenant, wait_timeout_seconds, TooManyTransfers, TransfersBusy)

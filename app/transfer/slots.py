"""Slots for exports and imports: limits for this process and for each tenant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from app.settings import TransferSettings
from app.tenant_slots import TenantSlots
from app.transfer.reader_pool import ArchiveReaderPool
from app.transfer.types import LARGE_DOCUMENT_BYTES, TooManyTransfers, TransfersBusy

# Maximum number of documents of all tenants that are in memory at a time.
MAX_CONCURRENT_DOCUMENTS = 2


@dataclass(slots=True)
class ImportCapacity:
    """Limit on the documents that are in memory while they are imported: two small documents, or one large document."""

    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_DOCUMENTS))
    _large_document_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def acquire(self, size: int) -> AsyncIterator[None]:
        """Hold capacity for one document until the block ends.

        Args:
            size: Bytes of the document's parts, without original and images.
        """
        async with AsyncExitStack() as stack:
            # One large document at a time: two with half of the capacity each would wait for each other without end.
            if size > LARGE_DOCUMENT_BYTES:
                await stack.enter_async_context(self._large_document_lock)
            for _ in range(MAX_CONCURRENT_DOCUMENTS if size > LARGE_DOCUMENT_BYTES else 1):
                await stack.enter_async_context(self._slots)
            yield


@dataclass(frozen=True, slots=True)
class TransferSlots:
    """Slots for exports and imports, capacity for imported documents, and the pool of archive readers."""

    exports: TenantSlots
    imports: TenantSlots
    capacity: ImportCapacity = field(default_factory=ImportCapacity)
    readers: ArchiveReaderPool = field(default_factory=ArchiveReaderPool)

    @classmethod
    def from_settings(cls, settings: TransferSettings) -> "TransferSlots":
        """Create the slots from the settings."""
        wait_timeout_seconds = settings.wait_timeout_seconds
        return cls(
            _create_slots(settings.max_exports, settings.max_tenant_exports, wait_timeout_seconds),
            _create_slots(settings.max_imports, settings.max_tenant_imports, wait_timeout_seconds),
        )


def _create_slots(max_total: int, max_per_tenant: int, wait_timeout_seconds: float) -> TenantSlots:
    return TenantSlots(max_total, max_per_tenant, wait_timeout_seconds, TooManyTransfers, TransfersBusy)

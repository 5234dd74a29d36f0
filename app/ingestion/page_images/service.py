"""Images of the pages of documents, for one tenant."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.session import TenantDatabase
from app.documents.lookup import find_readable_document
from app.documents.page_image_keys import format_image_key, format_image_prefix
from app.documents.repository import DocumentRepository
from app.documents.types import DocumentNotFound
from app.errors import NotFoundError, TooManyRequestsError, UnavailableError
from app.ingestion.parsers.sandbox.renderer_pool import (
    IMAGE_MEDIA_TYPES,
    PageImageFailed,
    PageImagesUnsupported,
    PageNotFound,
    PageRequest,
    RendererPool,
)
from app.knowledge_bases.service import KnowledgeBaseService
from app.object_store import ObjectMissing, ObjectStore
from app.temp_files import create_temp_directory, create_temp_file
from app.tenant_slots import TenantSlots

RENDERER_PROCESSES = 2
MAX_RENDERERS_PER_TENANT = 1
RENDERER_MEMORY_MB = 1000
RENDERER_TIMEOUT_SECONDS = 10
SLOT_TIMEOUT_SECONDS = 15.0
MAX_ORIGINAL_BYTES = 200 * 1024 * 1024
MAX_CACHED_IMAGES = 200
"""Maximum number of cached images of a document. The oldest are deleted for new ones."""

MAX_CACHED_IMAGE_BYTES = 2 * 1024 * 1024
"""Maximum size of a cached image. A larger image is drawn for each request."""

_TRIMMED_SHARE = 0.9


class TooManyPageImages(TooManyRequestsError):
    """This tenant already draws the maximum number of page images. Try again when one of them has ended."""

    code = "too_many_page_images"


class PageImagesBusy(UnavailableError):
    """The service already draws the maximum number of page images. Try again later."""

    code = "page_images_busy"


@dataclass(frozen=True, slots=True)
class PageImageContext:
    """Collaborators that the page images of a process share.

    Attributes:
        renderers: Pool of renderer processes, which start at the first image.
        slots: Limits on parallel images of the process and of each tenant.
    """

    renderers: RendererPool
    slots: TenantSlots

    @classmethod
    def from_limits(cls, *, memory_mb: int, cpu_timeout_seconds: int, timeout_seconds: int) -> "PageImageContext":
        """Create the context of a process, with limits of the parsers as upper bounds.

        Args:
            memory_mb: Maximum address space of a parser process in MiB.
            cpu_timeout_seconds: Maximum processor time of a parser process.
            timeout_seconds: Maximum elapsed time of a parser process.
        """
        renderers = RendererPool(
            max_processes=RENDERER_PROCESSES,
            memory_mb=min(memory_mb, RENDERER_MEMORY_MB),
            cpu_timeout_seconds=min(cpu_timeout_seconds, RENDERER_TIMEOUT_SECONDS),
            timeout_seconds=min(timeout_seconds, RENDERER_TIMEOUT_SECONDS),
        )
        slots = TenantSlots(
            RENDERER_PROCESSES, MAX_RENDERERS_PER_TENANT, SLOT_TIMEOUT_SECONDS, TooManyPageImages, PageImagesBusy
        )
        return cls(renderers, slots)


@dataclass(frozen=True, slots=True)
class PageImage:
    """Image of a page as PNG. ``pieces`` is None if the caller already has the image."""

    etag: str
    size: int
    pieces: AsyncIterator[bytes] | None


@dataclass(frozen=True, slots=True)
class _PageSource:
    """Page that the caller may read, with the key of the original and of the cached image."""

    document: DocumentRow
    reference: str
    request: PageRequest
    image_key: str

    @property
    def etag(self) -> str:
        """Entity tag of the image."""
        return f'"{self.image_key.rpartition("/")[2].removesuffix(".png")}"'


@dataclass(frozen=True, slots=True)
class PageImageService:
    """Use cases that show the pages of documents."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    objects: ObjectStore
    context: PageImageContext

    async def get(
        self, reference: str, document_id: UUID, *, page: int, scale: float, cached_etags: Collection[str]
    ) -> PageImage:
        """Return the image of a page of a document's live version, or of its newest version if none is live.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            page: Page number from 1.
            scale: Pixels for each point, rounded to two decimals.
            cached_etags: Entity tags of images that the caller has.

        Returns:
            The image.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, the caller may not read it, or its original is not stored.
            PageNotFound: The document has no such page.
            PageImagesUnsupported: The format of the document has no pages with images.
            PageImageTooLarge: The image has too many pixels.
            PageImageFailed: The page cannot be drawn.
            PageImageTimeout: Drawing took too long.
            TooManyPageImages: The tenant's slots stay occupied.
            PageImagesBusy: All slots stay occupied.
            ParserUnavailable: No renderer process can be started.
            ObjectStoreUnavailable: The object store does not answer.
        """
        source = await self._find_page(reference, document_id, page, round(scale, 2))
        if source.etag in cached_etags:
            return PageImage(source.etag, 0, None)
        cached = await self._read_cached(source)
        if cached is not None:
            return cached
        async with self.context.slots.acquire(self.db.tenant_id):
            cached = await self._read_cached(source)  # a request before this one may have drawn the page
            if cached is not None:
                return cached
            with create_temp_directory("render") as folder:
                image = await self.context.renderers.render(
                    source.request, partial(self._open_original, source.request.object_key, folder)
                )
                if len(image) <= MAX_CACHED_IMAGE_BYTES:
                    await self._store(source, image, folder)
        return PageImage(source.etag, len(image), _iter_once(image))

    async def _find_page(self, reference: str, document_id: UUID, page: int, scale: float) -> _PageSource:
        async with self.db.transaction() as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            reader = self.knowledge_bases.principal.user_id
            document, _ = await find_readable_document(session, kb, document_id, reader=reader)
            version = document.live_version or document.version
            # The row has the media type of the newest version. The renderer recognizes other files of older versions.
            if version == document.version and document.media_type not in IMAGE_MEDIA_TYPES:
                raise PageImagesUnsupported
            key = await DocumentRepository(session, document.tenant_id).find_object_key(document.id, version)
        if key is None:
            raise DocumentNotFound
        if document.live_version is not None and document.page_count is not None and page > document.page_count:
            raise PageNotFound(
                f"The document has {document.page_count} pages. Request one of them; pages count from 1."
            )
        request = PageRequest(document.tenant_id, key, page, scale)
        return _PageSource(document, reference, request, format_image_key(key, page=page, scale=scale))

    async def _read_cached(self, source: _PageSource) -> PageImage | None:
        """Return the cached image. The first piece is read here, because a parallel request may delete the object."""
        try:
            size = await self.objects.get_size(source.image_key)
            pieces = self.objects.stream(source.image_key, start=0, length=size)
            first = await anext(pieces)
        except (ObjectMissing, StopAsyncIteration):
            return None
        return PageImage(source.etag, size, _join_pieces(first, pieces))

    @asynccontextmanager
    async def _open_original(self, key: str, folder: Path) -> AsyncIterator[Path]:
        if await self.objects.get_size(key) > MAX_ORIGINAL_BYTES:
            raise PageImageFailed(
                f"The original has more than {MAX_ORIGINAL_BYTES >> 20} MiB, so its pages cannot be drawn. "
                "Download the original instead."
            )
        path = create_temp_file(folder, "original")
        await self.objects.get(key, path)
        yield path

    async def _store(self, source: _PageSource, image: bytes, folder: Path) -> None:
        """Put an image into the cache.

        If the document was deleted in between, the image is deleted, because the deletion may not have found it.

        Raises ObjectStoreUnavailable, and a NotFoundError if the document was deleted.
        """
        path = create_temp_file(folder, "image")
        await asyncio.to_thread(path.write_bytes, image)
        await self._delete_oldest(source)
        await self.objects.put(source.image_key, path)
        try:
            await self._find_page(source.reference, source.document.id, source.request.page, source.request.scale)
        except NotFoundError:
            await self.objects.delete(source.image_key)
            raise

    async def _delete_oldest(self, source: _PageSource) -> None:
        """Delete the oldest images of a document if it has the maximum number of them."""
        stored = [item async for item in self.objects.list_objects(format_image_prefix(source.request.object_key))]
        if len(stored) < MAX_CACHED_IMAGES:
            return
        stored.sort(key=lambda item: item.modified)
        for item in stored[: len(stored) - int(_TRIMMED_SHARE * MAX_CACHED_IMAGES)]:
            await self.objects.delete(item.key)


async def _iter_once(image: bytes) -> AsyncIterator[bytes]:
    yield image


async def _join_pieces(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece

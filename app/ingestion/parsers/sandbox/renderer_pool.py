"""Pool of sandboxed renderer processes, which draw pages of PDF files. A process serves one tenant only."""

import asyncio
import base64
import json
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from app.errors import InvalidInputError, NotFoundError, UnavailableError
from app.ingestion.parsers.sandbox.pool import START_TIMEOUT_SECONDS, ParserUnavailable, open_sealed_copy
from app.ingestion.types import CorruptFile
from app.sandbox.process import ReplyTooLong, SandboxedProcess, SandboxUnavailable

MAX_IMAGE_BYTES = 24 * 1024 * 1024
IDLE_TIMEOUT_SECONDS = 60.0
"""Time after which an unused process ends, so that it uses no memory next to the API."""

RECYCLE_AFTER_PAGES = 500
RETRY_AFTER_SECONDS = 10.0
IMAGE_MEDIA_TYPES = ("application/pdf",)
"""Media types of documents whose pages have images."""

_MODULE = "app.ingestion.parsers.sandbox.page_renderer"
_MAX_LINE_BYTES = 128 * 1024
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class PageNotFound(NotFoundError):
    """The document has no page with this number. Pages count from 1."""

    code = "page_not_found"


class PageImagesUnsupported(NotFoundError):
    """The format of the document has no pages with images. Documents of the type application/pdf have images."""

    code = "page_images_unsupported"


class PageImageTooLarge(InvalidInputError):
    """The image is too large. Request a lower scale."""

    code = "page_image_too_large"


class PageImageFailed(InvalidInputError):
    """The page is damaged or too complex, so it cannot be drawn. Download the original instead."""

    code = "page_image_failed"


class PageImageTimeout(UnavailableError):
    """Drawing the page took too long. Try again later, with a lower scale, or download the original."""

    code = "page_image_timeout"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Page to draw.

    Attributes:
        tenant_id: Tenant that owns the document.
        object_key: Key of the original in the object store. A process that has the original open reads it once.
        page: Page number from 1.
        scale: Pixels for each point.
    """

    tenant_id: UUID
    object_key: str
    page: int
    scale: float


OriginalOpener = Callable[[], AbstractAsyncContextManager[Path]]


@dataclass(slots=True, eq=False)
class _Renderer:
    """Renderer process of one tenant, with the original that it has open."""

    process: SandboxedProcess
    tenant_id: UUID
    object_key: str | None = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class RendererPool:
    """Pool of renderer processes. The caller limits the number of parallel calls to ``max_processes``.

    An idle process is only used for the tenant that it served before. It is killed if another tenant needs its place.

    Attributes:
        max_processes: Maximum number of processes.
        memory_mb: Maximum address space of a process in MiB.
        cpu_timeout_seconds: Processor time for one page.
        timeout_seconds: Elapsed time for one page.
    """

    max_processes: int
    memory_mb: int
    cpu_timeout_seconds: int
    timeout_seconds: float
    _idle: list[_Renderer] = field(default_factory=list)
    _busy: int = 0
    _closed: bool = False
    _kills: set[asyncio.Task[None]] = field(default_factory=set)

    async def render(self, request: PageRequest, open_original: OriginalOpener) -> bytes:
        """Draw a page as PNG.

        Args:
            request: The page.
            open_original: Function that provides the original as a file, called if no process has it open.

        Returns:
            The image.

        Raises:
            PageNotFound: The document has no such page.
            PageImagesUnsupported: The original is no PDF.
            PageImageTooLarge: The image has too many pixels or bytes.
            PageImageFailed: The page cannot be drawn.
            PageImageTimeout: Drawing took too long.
            ParserUnavailable: No process can be started.
        """
        self._busy += 1
        try:
            renderer = await self._take_renderer(request)
            try:
                image = await self._draw_page(renderer, request, open_original)
            except (PageNotFound, PageImageTooLarge):  # the process is intact
                await self._release_renderer(renderer)
                raise
            except BaseException:  # after any other error or a cancellation, the state of the process is unknown
                await renderer.process.kill()
                raise
            await self._release_renderer(renderer)
        finally:
            self._busy -= 1
        return image

    async def close(self) -> None:
        """Kill the idle processes. A busy process ends after it has answered its caller."""
        self._closed = True
        while self._idle:
            await self._kill_idle(self._idle[0])
        await asyncio.gather(*self._kills)

    @property
    def idle_count(self) -> int:
        """Number of processes that wait for a page."""
        return len(self._idle)

    async def _take_renderer(self, request: PageRequest) -> _Renderer:
        own = [renderer for renderer in self._idle if renderer.tenant_id == request.tenant_id]
        own.sort(key=lambda renderer: renderer.object_key == request.object_key)
        if own:
            renderer = own[-1]
            self._idle.remove(renderer)
            if renderer.expiry is not None:
                renderer.expiry.cancel()
            return renderer
        while self._idle and len(self._idle) + self._busy > self.max_processes:
            await self._kill_idle(self._idle[0])
        return _Renderer(await self._spawn(), request.tenant_id)

    async def _release_renderer(self, renderer: _Renderer) -> None:
        """Keep the process for its tenant for some time, or kill it after many pages."""
        renderer.process.request_count += 1
        if self._closed or renderer.process.request_count >= RECYCLE_AFTER_PAGES:
            await renderer.process.kill()
            return
        loop = asyncio.get_running_loop()
        renderer.expiry = loop.call_later(IDLE_TIMEOUT_SECONDS, self._end_idle, renderer)
        self._idle.append(renderer)

    def _end_idle(self, renderer: _Renderer) -> None:
        if renderer in self._idle:
            task = asyncio.get_running_loop().create_task(self._kill_idle(renderer))
            self._kills.add(task)
            task.add_done_callback(self._kills.discard)

    async def _kill_idle(self, renderer: _Renderer) -> None:
        if renderer in self._idle:
            self._idle.remove(renderer)
            if renderer.expiry is not None:
                renderer.expiry.cancel()
            await renderer.process.kill()

    async def _spawn(self) -> SandboxedProcess:
        setup = {"memory_mb": self.memory_mb, "cpu_timeout_seconds": self.cpu_timeout_seconds}
        try:
            process = await SandboxedProcess.start(_MODULE, setup)
        except SandboxUnavailable as exc:
            raise ParserUnavailable from exc
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                ready = await process.read_line(_MAX_LINE_BYTES)
        except (TimeoutError, ReplyTooLong) as exc:
            await process.kill()
            raise ParserUnavailable from exc
        except BaseException:
            await process.kill()
            raise
        if ready is None:
            await process.kill()
            raise ParserUnavailable
        return process

    async def _draw_page(self, renderer: _Renderer, request: PageRequest, open_original: OriginalOpener) -> bytes:
        message: dict[str, Any] = {"page": request.page, "scale": request.scale, "path": None}
        async with AsyncExitStack() as stack:
            descriptors: tuple[int, ...] = ()
            if renderer.object_key != request.object_key:
                path = await stack.enter_async_context(open_original())
                try:
                    descriptor = await stack.enter_async_context(open_sealed_copy(path))
                except CorruptFile as exc:
                    raise PageImageFailed from exc
                if descriptor is None:
                    message["path"] = str(path)
                else:
                    descriptors = (descriptor,)
                renderer.object_key = None
            line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    await renderer.process.send(line, descriptors)
                    image = await _read_image(renderer.process, self.cpu_timeout_seconds)
            except (PageNotFound, PageImageTooLarge):
                renderer.object_key = request.object_key
                raise
            except TimeoutError as exc:
                raise PageImageTimeout(retry_after=RETRY_AFTER_SECONDS) from exc
            except (ReplyTooLong, ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
                raise PageImageFailed from exc
        renderer.object_key = request.object_key
        return image


async def _read_image(process: SandboxedProcess, cpu_timeout_seconds: int) -> bytes:
    """Read the reply of a process, which is not trusted.

    Raises ValueError, TypeError or KeyError for an invalid reply, and the errors of ``RendererPool.render``.
    """
    image = bytearray()
    while (line := await process.read_line(_MAX_LINE_BYTES)) is not None:
        message = json.loads(line)
        if "piece" in message:
            image += base64.b64decode(message["piece"], validate=True)
            if len(image) > MAX_IMAGE_BYTES:
                raise PageImageFailed("The image has too many bytes. Request a lower scale.")
        elif "failed" in message:
            _raise_failure(message["failed"])
        elif message["done"] != len(image) or not image.startswith(_PNG_SIGNATURE):
            raise ValueError("not an image")
        else:
            return bytes(image)
    status = await process.process.wait()
    if status == -signal.SIGXCPU:
        raise PageImageTimeout(
            f"Drawing the page needs more than {cpu_timeout_seconds} seconds of processor time. "
            "Request a lower scale, or download the original.",
            retry_after=RETRY_AFTER_SECONDS,
        )
    raise PageImageFailed


def _raise_failure(fields: dict[str, Any]) -> None:
    reason = fields["reason"]
    if reason == "no_page":
        raise PageNotFound(f"The document has {int(fields['pages'])} pages. Request one of them; pages count from 1.")
    if reason == "not_pdf":
        raise PageImagesUnsupported
    if reason == "too_large":
        message = f"The image has too many pixels. The largest scale for this page is {float(fields['max_scale']):g}."
        raise PageImageTooLarge(message, loc=("query", "scale"))
    raise PageImageFailed

"""Program of a renderer process: it draws pages of PDF files as PNG images, inside the sandbox.

It runs as ``python -I -m app.ingestion.parsers.sandbox.page_renderer``. The process answers each request with any
number of ``piece`` lines, which are base64, and one ``done`` or ``failed`` line. It keeps the last file open, because
callers read the pages of a document one after another.
"""

import base64
import json
import math
from pathlib import Path
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.sandbox.channel import Channel
from app.sandbox.confinement import SandboxLimits, limit_cpu_time

PIECE_BYTES = 48 * 1024
MAX_PIXELS = 16_000_000
"""Maximum number of pixels of an image, which take 48 MB without compression."""


class RenderingFailed(Exception):
    """A page cannot be drawn. ``fields`` is the ``failed`` message."""

    def __init__(self, reason: str, **fields: Any) -> None:
        self.fields = {"reason": reason, **fields}
        super().__init__(reason)


class PdfRenderer:
    """Renderer of pages, which keeps the last file open."""

    def __init__(self) -> None:
        self._document: Any = None

    def open_file(self, path: str) -> None:
        """Open a file and close the file before it.

        Args:
            path: Path of the file, which names a descriptor.

        Raises:
            RenderingFailed: The file is no PDF, damaged or encrypted.
        """
        self.close_file()
        with Path(path).open("rb") as source:
            if b"%PDF-" not in source.read(1024):
                raise RenderingFailed("not_pdf")
        fitz: Any = pymupdf  # a library without type annotations
        document = fitz.open(path, filetype="pdf")
        if document.needs_pass and not document.authenticate(""):
            raise RenderingFailed("encrypted")
        self._document = document

    def close_file(self) -> None:
        """Close the open file, if there is one."""
        document, self._document = self._document, None
        if document is not None:
            document.close()

    def render_page(self, number: int, scale: float) -> bytes:
        """Render a page of the open file as it is displayed: rotated, and cut to its visible part.

        Args:
            number: Page number from 1.
            scale: Pixels for each point.

        Returns:
            The image as PNG.

        Raises:
            RenderingFailed: The page does not exist, is damaged, or has too many pixels.
        """
        document = self._document
        if document is None:
            raise RenderingFailed("damaged")
        if number > document.page_count:
            raise RenderingFailed("no_page", pages=document.page_count)
        page = document.load_page(number - 1)
        pixels = page.rect.width * page.rect.height
        if not math.isfinite(pixels) or pixels <= 0:
            raise RenderingFailed("damaged")
        if pixels * scale * scale > MAX_PIXELS:
            raise RenderingFailed("too_large", max_scale=math.floor(100 * math.sqrt(MAX_PIXELS / pixels)) / 100)
        fitz: Any = pymupdf
        try:
            return _encode_png(page.get_pixmap(matrix=fitz.Matrix(scale, scale), alpha=False))
        finally:
            fitz.TOOLS.store_shrink(100)


def _encode_png(pixmap: Any) -> bytes:
    """Return pixels as PNG. An image without colour needs one byte for each pixel: half the time and size."""
    fitz: Any = pymupdf
    red, green, blue = (pixmap.samples[index::3] for index in range(3))
    if red == green == blue:
        pixmap = fitz.Pixmap(fitz.csGRAY, pixmap)
    encoded: bytes = pixmap.tobytes("png")
    return encoded


def main() -> None:
    """Confine this process, report that it is ready, and answer requests until the input ends."""
    channel = Channel()
    fitz: Any = pymupdf
    fitz.TOOLS.mupdf_display_errors(False)
    fitz.TOOLS.mupdf_display_warnings(False)
    channel.confine(SandboxLimits(memory_mb=channel.setup["memory_mb"]))
    channel.send({"ready": True})
    renderer = PdfRenderer()
    for request, descriptors in channel.iter_requests():
        limit_cpu_time(channel.setup["cpu_timeout_seconds"])
        path = f"/proc/self/fd/{descriptors[0]}" if descriptors else request["path"]
        _handle_request(renderer, path, request, channel)


def _handle_request(renderer: PdfRenderer, path: str | None, request: dict[str, Any], channel: Channel) -> None:
    try:
        if path is not None:
            renderer.open_file(path)
        image = renderer.render_page(request["page"], request["scale"])
    except RenderingFailed as exc:
        channel.send({"failed": exc.fields})
    except (MemoryError, mupdf.FzErrorSystem):
        channel.send({"failed": {"reason": "memory"}})
    except Exception:  # the library may raise any exception for a damaged file
        channel.send({"failed": {"reason": "damaged"}})
    else:
        for start in range(0, len(image), PIECE_BYTES):
            piece = base64.b64encode(image[start : start + PIECE_BYTES]).decode("ascii")
            channel.write(json.dumps({"piece": piece}).encode("ascii") + b"\n")
        channel.send({"done": len(image)})


if __name__ == "__main__":
    main()

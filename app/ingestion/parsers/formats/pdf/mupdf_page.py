"""One page as MuPDF sees it: its lines of text and its pictures, in the order of the file.

MuPDF's own JSON is twice as fast as PyMuPDF's dictionaries, and its own calls raise errors that can be told apart.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.layout import TextLine

JSON_SCALE = 16.0
"""MuPDF writes whole numbers; scaled up they keep a sixteenth of a unit."""

TEXT_FLAGS = pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES & ~pymupdf.TEXT_PRESERVE_LIGATURES
_BULLETS = str.maketrans({"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "‣", "\uf02d": "–", "\uf06c": "•", "\uf06e": "▪"})


@dataclass(frozen=True, slots=True)
class PdfImage:
    """A picture that a page shows: its place in points, its size in pixels, and MuPDF's handle of it."""

    x0: float
    y0: float
    x1: float
    y1: float
    width: int
    height: int
    handle: Any


def get_mupdf_page(page: Any) -> Any:
    """MuPDF's page behind PyMuPDF's."""
    return page.this.super() if isinstance(page.this, mupdf.PdfPage) else page.this


def load_text_page(page: Any, *, include_images: bool) -> Any:
    """Return the text of a page. With ``include_images`` its images are loaded too, which takes time.

    MuPDF's errors are not translated.
    """
    source = get_mupdf_page(page)
    text = mupdf.FzStextPage(mupdf.fz_bound_page(source))
    flags = TEXT_FLAGS | pymupdf.TEXT_PRESERVE_IMAGES if include_images else TEXT_FLAGS
    device = mupdf.fz_new_stext_device(text, mupdf.FzStextOptions(flags))
    mupdf.fz_run_page(source, device, mupdf.FzMatrix(), mupdf.FzCookie())
    mupdf.fz_close_device(device)
    return text


def iter_raw_lines(text: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines with anything in them as MuPDF's JSON has them, ``JSON_SCALE`` times as large, and their blocks."""
    buffer = mupdf.FzBuffer(4096)
    output = mupdf.FzOutput(buffer)
    mupdf.fz_print_stext_page_as_json(output, text, JSON_SCALE)
    output.fz_close_output()
    page = json.loads(buffer.fz_buffer_extract().decode("utf-8", "replace"), strict=False)
    for index, block in enumerate(page["blocks"]):
        for raw_line in block.get("lines", ()):
            if raw_line["text"].strip():
                yield index, raw_line


def iter_lines(text: Any) -> Iterator[TextLine]:
    """The lines in points."""
    for block, raw_line in iter_raw_lines(text):
        box = raw_line["bbox"]
        x, y = box["x"] / JSON_SCALE, box["y"] / JSON_SCALE
        words = raw_line["text"]
        if not words.isprintable():  # as characters for private use are not; translating takes time
            words = words.translate(_BULLETS)
        yield TextLine(
            x,
            y,
            x + box["w"] / JSON_SCALE,
            y + box["h"] / JSON_SCALE,
            raw_line["font"]["size"] / JSON_SCALE,
            words,
            block,
        )


def iter_images(text: Any) -> Iterator[PdfImage]:
    """The pictures of a page that was read with them; MuPDF counts colour gradients among them."""
    for block in text:
        if block.m_internal.type == mupdf.FZ_STEXT_BLOCK_IMAGE:
            image, box = block.i_image(), block.m_internal.bbox
            yield PdfImage(box.x0, box.y0, box.x1, box.y1, image.w(), image.h(), image)


def compute_checksum(image: PdfImage) -> int:
    """Tells the pictures of a document apart; 0 for what is no file of its own, such as a gradient."""
    compressed = mupdf.fz_compressed_image_buffer(image.handle)
    if not compressed.m_internal:
        return 0
    buffer = mupdf.FzBuffer(mupdf.ll_fz_keep_buffer(compressed.m_internal.buffer))
    return zlib.crc32(buffer.fz_buffer_extract_copy())

"""Reading of a page by MuPDF: lines and images, in the order of the file.

The module uses MuPDF's JSON, which is twice as fast as the dictionaries of PyMuPDF. It calls MuPDF directly, because
PyMuPDF hides the type of an error.
"""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymupdf
from pymupdf import mupdf

JSON_SCALE = 16.0
"""Scale of coordinates in the JSON of MuPDF, which rounds numbers: the scaled numbers keep a sixteenth of a unit."""

TEXT_FLAGS = pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES & ~pymupdf.TEXT_PRESERVE_LIGATURES


@dataclass(frozen=True, slots=True)
class PdfImage:
    """Image on a page.

    Attributes:
        x0: Left edge in points.
        y0: Top edge in points.
        x1: Right edge in points.
        y1: Bottom edge in points.
        width: Width in pixels.
        height: Height in pixels.
        handle: Image object of MuPDF.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    width: int
    height: int
    handle: Any


def get_mupdf_page(page: Any) -> Any:
    """Return the MuPDF page of a PyMuPDF page."""
    return page.this.super() if isinstance(page.this, mupdf.PdfPage) else page.this


def load_text_page(page: Any, *, include_images: bool, is_form: bool = False) -> Any:
    """Load the text of a page. Errors of MuPDF reach the caller unchanged.

    Args:
        page: Page of PyMuPDF.
        include_images: Whether to load the images too, which takes time.
        is_form: Whether the page has form fields. Only signatures are loaded as the page shows them, because ticks of
            other fields look like digits.

    Returns:
        A structured text page of MuPDF.
    """
    source = get_mupdf_page(page)
    text = mupdf.FzStextPage(mupdf.fz_bound_page(source))
    flags = TEXT_FLAGS | pymupdf.TEXT_PRESERVE_IMAGES if include_images else TEXT_FLAGS
    device = mupdf.fz_new_stext_device(text, mupdf.FzStextOptions(flags))
    if is_form:
        _run_form_page(source, device)
    else:
        mupdf.fz_run_page(source, device, mupdf.FzMatrix(), mupdf.FzCookie())
    mupdf.fz_close_device(device)
    return text


def print_text_page(text: Any, printer: Any, argument: float) -> bytes:
    """Print a page by a function of MuPDF.

    Args:
        text: Structured text page of MuPDF.
        printer: Function of MuPDF that prints such a page.
        argument: Last argument of the function, such as a scale.
    """
    buffer = mupdf.FzBuffer(4096)
    output = mupdf.FzOutput(buffer)
    printer(output, text, argument)
    output.fz_close_output()
    data: bytes = buffer.fz_buffer_extract()
    return data


def _run_form_page(source: Any, device: Any) -> None:
    matrix, cookie = mupdf.FzMatrix(), mupdf.FzCookie()
    mupdf.fz_run_page_contents(source, device, matrix, cookie)
    mupdf.fz_run_page_annots(source, device, matrix, cookie)
    widget = mupdf.pdf_first_widget(mupdf.pdf_page_from_fz_page(source))
    while widget.m_internal:
        if mupdf.pdf_widget_type(widget) == mupdf.PDF_WIDGET_TYPE_SIGNATURE:
            mupdf.pdf_run_annot(widget, device, matrix, cookie)
        widget = mupdf.pdf_next_widget(widget)


def iter_raw_lines(text: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a page from the JSON of MuPDF.

    Args:
        text: Structured text page of MuPDF.

    Yields:
        The number of the text block, and a line that is not empty. Its coordinates are multiplied by ``JSON_SCALE``.
    """
    data = print_text_page(text, mupdf.fz_print_stext_page_as_json, JSON_SCALE)
    page = json.loads(data.decode("utf-8", "replace"), strict=False)
    for index, block in enumerate(page["blocks"]):
        for raw_line in block.get("lines", ()):
            if raw_line["text"].strip():
                yield index, raw_line


def iter_images(text: Any) -> Iterator[PdfImage]:
    """Yield the images of a page that was loaded with images. MuPDF also yields color gradients."""
    for block in text:
        if block.m_internal.type == mupdf.FZ_STEXT_BLOCK_IMAGE:
            image, box = block.i_image(), block.m_internal.bbox
            yield PdfImage(box.x0, box.y0, box.x1, box.y1, image.w(), image.h(), image)


def compute_checksum(image: PdfImage) -> int:
    """Compute a checksum that identifies an image in its document.

    Args:
        image: The image.

    Returns:
        The CRC-32 of the image data; 0 for a drawing without image data, such as a gradient.
    """
    compressed = mupdf.fz_compressed_image_buffer(image.handle)
    if not compressed.m_internal:
        return 0
    buffer = mupdf.FzBuffer(mupdf.ll_fz_keep_buffer(compressed.m_internal.buffer))
    return zlib.crc32(buffer.fz_buffer_extract_copy())

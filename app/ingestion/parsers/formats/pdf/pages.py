"""The pages of a PDF: their lines, by OCR where they have none, and a sentence for all that was not read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf.layout import TextLine
from app.ingestion.parsers.formats.pdf.mupdf_page import PdfImage, iter_images, iter_lines, load_text_page
from app.ingestion.parsers.formats.pdf.ocr import (
    OcrEngine,
    format_install_hint,
    format_page_ranges,
    list_language_warnings,
)
from app.ingestion.parsers.formats.pdf.pdf_images import PdfImageExtractor, PdfImagePlacement, find_content_images
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import MIN_SIDE_PIXELS
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.types import CorruptFile, NoTextFound, ParserOutOfMemory
from app.warnings import ServiceWarning, WarningCode

MAX_UNREADABLE_SHARE = 0.4
"""A page with more unreadable characters has a font without a character map: what comes out is noise, not text."""

FILE_REPAIRED = ServiceWarning(WarningCode.FILE_REPAIRED, "The file is damaged; what could be read of it was kept.")
_UNREADABLE = re.compile(r"[\ufffd\x00-\x08\x0e-\x1f\ue000-\uf8ff]")
_PAGE_ERRORS = (mupdf.FzErrorBase, RuntimeError, ValueError)


class PageIssue(Enum):
    """Why a page gives no text."""

    BROKEN = auto()
    GARBLED = auto()
    SCAN = auto()
    NO_TEXT = auto()


@dataclass(slots=True)
class PdfPage:
    """What was read of one page; ``height`` in points, ``is_ocr`` by OCR.

    ``shown_size`` are width and height of the page as it is shown, which is turned by ``rotation`` from how its
    lines lie.
    ``size_scale`` makes the sizes of recognised lines comparable with those of other pages.
    """

    number: int
    lines: list[TextLine] = field(default_factory=list)
    height: float = 0.0
    shown_size: tuple[float, float] = (0.0, 0.0)
    rotation: int = 0
    issue: PageIssue | None = None
    is_ocr: bool = False
    size_scale: float = 1.0
    images: list[PdfImagePlacement] = field(default_factory=list)


@dataclass(slots=True)
class PdfPages:
    """All pages in order, and why OCR stopped, if it did before all was read."""

    pages: list[PdfPage]
    ocr_unavailable_reason: str = ""

    def list_page_numbers(self, issue: PageIssue) -> list[int]:
        """The pages with that trouble."""
        return [page.number for page in self.pages if page.issue is issue]


def read_pages(document: Any, options: ParseOptions, image_extractor: PdfImageExtractor) -> PdfPages:
    """All text first, then OCR for as long as there is time; at last the pictures of pages without text.

    Raises ParserOutOfMemory, TextTooLong, CorruptFile, NoTextFound."""
    ocr_engine, counter = OcrEngine(options), BlockList(options)
    pages = PdfPages([])
    try:
        for index in range(document.page_count):
            page = _read_page(document, index, image_extractor)
            counter.count_characters(sum(len(line.text) for line in page.lines))
            pages.pages.append(page)
            options.on_progress(page.number, document.page_count)
        for page in pages.pages:
            if page.issue in (PageIssue.SCAN, PageIssue.GARBLED):
                pages.ocr_unavailable_reason = ocr_engine.unavailable_reason
                if pages.ocr_unavailable_reason:
                    break
                _run_ocr(document, page, ocr_engine)
                options.on_progress(page.number, document.page_count)
        if image_extractor.images.is_enabled:
            for page in pages.pages:
                _read_page_images(document, page, image_extractor)
    except mupdf.FzErrorSystem as exc:  # MuPDF's word for an allocation that fails
        raise ParserOutOfMemory from exc
    _check_readable(document, pages, options)
    return pages


def _read_page(document: Any, index: int, image_extractor: PdfImageExtractor) -> PdfPage:
    page = PdfPage(index + 1)
    try:
        loaded = document.load_page(index)
        rect = loaded.rect
        page.shown_size = rect.width, rect.height
        page.rotation = loaded.rotation
        page.height = rect.width if page.rotation in (90, 270) else rect.height
        _read_text(loaded, page, image_extractor)
    except mupdf.FzErrorSystem:
        raise
    except _PAGE_ERRORS:
        page.lines, page.issue = [], PageIssue.BROKEN
    text = "".join(line.text for line in page.lines)
    if text and _is_garbled(text):
        page.lines, page.issue = [], PageIssue.GARBLED
    return page


def _is_garbled(text: str) -> bool:
    if text.isprintable() and "\ufffd" not in text:  # quicker to ask, and no other unreadable character is printable
        return False
    return len(_UNREADABLE.findall(text)) > MAX_UNREADABLE_SHARE * len(text)


def _read_text(loaded: Any, page: PdfPage, image_extractor: PdfImageExtractor) -> None:
    listed_sizes = _list_image_sizes(loaded)
    sizes = _select_large_sizes(listed_sizes)
    if page.rotation:  # text lies upright in the unrotated page, a scan in the rotated one
        loaded.set_rotation(0)
    try:
        text = load_text_page(loaded, include_images=bool(sizes))
    finally:
        if page.rotation:
            loaded.set_rotation(page.rotation)
    page.lines = list(iter_lines(text))
    if not page.lines and listed_sizes:
        page.issue = PageIssue.SCAN
    if page.lines and sizes:
        large_images = [image for image in iter_images(text) if (image.width, image.height) in sizes]
        page.images = image_extractor.extract_images(
            image for image in large_images if not _is_background(image, page.lines)
        )


def _read_page_images(document: Any, page: PdfPage, image_extractor: PdfImageExtractor) -> None:
    """Take the pictures of a page that nothing was read on: they are all that there is to it."""
    if page.lines or page.issue is PageIssue.BROKEN:
        return
    try:
        loaded = document.load_page(page.number - 1)
        sizes = _select_large_sizes(_list_image_sizes(loaded))
        page_images = iter_images(load_text_page(loaded, include_images=True)) if sizes else ()
        page.images = image_extractor.extract_images(
            image for image in page_images if (image.width, image.height) in sizes
        )
    except mupdf.FzErrorSystem:
        raise
    except _PAGE_ERRORS:
        return
    if page.issue is PageIssue.NO_TEXT and any(image.image_index is not None for image in page.images):
        page.issue = None


def _select_large_sizes(sizes: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    return {size for size in sizes if min(size) >= MIN_SIDE_PIXELS}


def _list_image_sizes(loaded: Any) -> list[tuple[int, int]]:
    """Sizes of the pictures that the page may use; a list that cannot be read does not cost the page its text."""
    try:
        return [(int(entry[2]), int(entry[3])) for entry in loaded.get_images()]
    except mupdf.FzErrorSystem:
        raise
    except (*_PAGE_ERRORS, TypeError, IndexError, KeyError):
        return []


def _is_background(image: PdfImage, lines: Sequence[TextLine]) -> bool:
    """Most of the page's text lies on it: paper with a layer of text from an earlier OCR, or decoration."""
    inside = sum(len(line.text) for line in lines if _is_on_image(line, image))
    return 2 * inside > sum(len(line.text) for line in lines)


def _is_on_image(line: TextLine, image: PdfImage) -> bool:
    x, y = (line.x0 + line.x1) / 2, (line.y0 + line.y1) / 2
    return image.x0 <= x <= image.x1 and image.y0 <= y <= image.y1


def _run_ocr(document: Any, page: PdfPage, ocr_engine: OcrEngine) -> None:
    loaded = document.load_page(page.number - 1)
    try:
        page.lines = ocr_engine.read_page(loaded)
        page.height, page.rotation = loaded.rect.height, 0
    except CorruptFile:
        page.issue = PageIssue.BROKEN
        return
    page.is_ocr = bool(page.lines)
    if page.is_ocr:
        page.issue = None
    elif page.issue is PageIssue.SCAN:
        page.issue = PageIssue.NO_TEXT


def _check_readable(document: Any, pages: PdfPages, options: ParseOptions) -> None:
    """Raises CorruptFile where half of the pages or more are, NoTextFound where there is none."""
    count = len(pages.pages)
    broken, garbled = len(pages.list_page_numbers(PageIssue.BROKEN)), len(pages.list_page_numbers(PageIssue.GARBLED))
    if 2 * broken >= count:
        raise CorruptFile
    if any(page.lines or any(image.image_index is not None for image in page.images) for page in pages.pages):
        return
    remedy = "" if options.ocr.languages else f"; {format_install_hint(options.ocr)}"
    if scans := len(pages.list_page_numbers(PageIssue.SCAN)):
        subject = "1 page of this PDF looks like a scan" if scans == 1 else f"{scans} pages of this PDF look like scans"
        raise NoTextFound(f"{subject} and could not be read: {pages.ocr_unavailable_reason}{remedy}.")
    if garbled:
        reason = f" without OCR: {pages.ocr_unavailable_reason}{remedy}" if pages.ocr_unavailable_reason else ""
        raise NoTextFound(f"The fonts of this PDF do not say which characters they draw, so it cannot be read{reason}.")
    if pages.list_page_numbers(PageIssue.NO_TEXT):
        raise NoTextFound("This PDF has pictures alone, and no text was found in them.")
    if broken or document.is_repaired:
        raise CorruptFile
    raise NoTextFound


def iter_warnings(document: Any, pages: PdfPages, options: ParseOptions) -> Iterator[ServiceWarning]:
    """Yield warnings about what was not read, for the document's owner."""
    count = len(pages.pages)
    if document.is_repaired:
        yield FILE_REPAIRED
    if broken := pages.list_page_numbers(PageIssue.BROKEN):
        message = f"{len(broken)} of {count} pages are damaged and could not be read."
        yield ServiceWarning(WarningCode.DAMAGED_PAGES_NOT_READ, message)
    if scans := pages.list_page_numbers(PageIssue.SCAN):
        predicate = "looks like a scan and was" if len(scans) == 1 else "look like scans and were"
        message = f"{format_page_ranges(scans)} {predicate} not read: {pages.ocr_unavailable_reason}."
        yield ServiceWarning(WarningCode.OCR_PAGES_NOT_READ, message)
    if garbled := pages.list_page_numbers(PageIssue.GARBLED):
        message = f"{len(garbled)} of {count} pages have fonts whose characters cannot be read."
        yield ServiceWarning(WarningCode.FONTS_NOT_READABLE, message)
    if without_text := pages.list_page_numbers(PageIssue.NO_TEXT):
        verb = "has" if len(without_text) == 1 else "have"
        message = f"{format_page_ranges(without_text)} {verb} pictures alone, and no text was found in them."
        yield ServiceWarning(WarningCode.PAGES_WITHOUT_TEXT, message)
    if any(page.is_ocr for page in pages.pages):
        yield from list_language_warnings(options.ocr)
    extracted = {image.key for page in pages.pages for image in page.images if image.image_index is not None}
    yield from list_image_warnings(len(find_content_images([page.images for page in pages.pages]) - extracted))

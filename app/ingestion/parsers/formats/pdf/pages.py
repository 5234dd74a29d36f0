"""Reading of the pages of a PDF file: lines, by OCR if a page has no text, and warnings about unread pages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf.annotations import (
    PageAnnotations,
    has_annotations,
    has_form_fields,
    read_annotations,
)
from app.ingestion.parsers.formats.pdf.mupdf_page import PdfImage, iter_images, load_text_page
from app.ingestion.parsers.formats.pdf.ocr import (
    OcrEngine,
    format_install_hint,
    format_page_ranges,
    list_language_warnings,
)
from app.ingestion.parsers.formats.pdf.overprints import remove_overprints
from app.ingestion.parsers.formats.pdf.page_lines import read_lines
from app.ingestion.parsers.formats.pdf.page_links import read_link_areas
from app.ingestion.parsers.formats.pdf.pdf_images import PdfImageExtractor, PdfImagePlacement, find_content_images
from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.parsers.formats.pdf.vertical_text import join_vertical_lines
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import MIN_SIDE_PIXELS
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.types import CorruptFile, NoTextFound, ParserOutOfMemory
from app.warnings import ServiceWarning, WarningCode

MAX_UNREADABLE_SHARE = 0.4
"""Maximum share of unreadable characters on a page.

A page with a larger share has fonts that do not map their glyphs to characters, so that its text is noise.
"""

FILE_REPAIRED = ServiceWarning(WarningCode.FILE_REPAIRED, "The file is damaged; only its readable parts were read.")
_UNREADABLE = re.compile(r"[\ufffd\x00-\x08\x0e-\x1f\ue000-\uf8ff]")
_PAGE_ERRORS = (mupdf.FzErrorBase, RuntimeError, ValueError)


class PageIssue(Enum):
    """Reason why a page has no text.

    BROKEN: the page is damaged. GARBLED: its fonts do not name their characters. SCAN: it has only images, and OCR has
    not read it. NO_TEXT: OCR found no text.
    """

    BROKEN = auto()
    GARBLED = auto()
    SCAN = auto()
    NO_TEXT = auto()


@dataclass(slots=True)
class PdfPage:
    """Lines and images of one page.

    Attributes:
        number: Page number from 1.
        lines: Lines, with coordinates in points on the page before its rotation.
        height: Height in points, in the coordinates of the lines.
        shown_size: Width and height in points of the page as it is displayed.
        rotation: Clockwise rotation in degrees from the lines' coordinates to the displayed page.
        issue: Reason why the page has no text; None if there is nothing to report.
        is_ocr: Whether the lines are from OCR.
        size_scale: Factor that makes the font sizes of OCR lines comparable with the font sizes of other pages.
        images: Images on the page.
        annotations: Annotations of the page; None if it has none.
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
    annotations: PageAnnotations | None = None


@dataclass(slots=True)
class PdfPages:
    """Pages of a PDF file.

    Attributes:
        pages: All pages in order.
        ocr_unavailable_reason: Reason why OCR stopped before it had read all pages; empty if it read all.
    """

    pages: list[PdfPage]
    ocr_unavailable_reason: str = ""

    def list_page_numbers(self, issue: PageIssue) -> list[int]:
        """Return the numbers of the pages with an issue."""
        return [page.number for page in self.pages if page.issue is issue]


def read_pages(document: Any, options: ParseOptions, image_extractor: PdfImageExtractor) -> PdfPages:
    """Read all pages: first the text, then OCR within its time limit, then the images of pages without text.

    Args:
        document: Document of PyMuPDF.
        options: Options and limits of the parser call.
        image_extractor: Extractor that collects the images.

    Returns:
        The pages.

    Raises:
        CorruptFile: Half of the pages or more are damaged.
        NoTextFound: The document has neither readable text nor an extracted image.
        TextTooLong: The document has more characters than the limit allows.
        ParserOutOfMemory: The process has reached its memory limit.
    """
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
    except mupdf.FzErrorSystem as exc:  # MuPDF raises it if an allocation fails
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
        _read_text(document, loaded, page, image_extractor)
    except mupdf.FzErrorSystem:
        raise
    except _PAGE_ERRORS:
        page.lines, page.issue = [], PageIssue.BROKEN
    text = "".join(line.text for line in page.lines)
    if text and _is_garbled(text):
        page.lines, page.issue = [], PageIssue.GARBLED
    return page


def _is_garbled(text: str) -> bool:
    # A faster test than the pattern: U+FFFD is the only unreadable character that is printable.
    if text.isprintable() and "\ufffd" not in text:
        return False
    return len(_UNREADABLE.findall(text)) > MAX_UNREADABLE_SHARE * len(text)


def _read_text(document: Any, loaded: Any, page: PdfPage, image_extractor: PdfImageExtractor) -> None:
    listed_sizes = _list_image_sizes(loaded)
    sizes = _select_large_sizes(listed_sizes)
    if page.rotation:  # text is upright on the unrotated page, a scan on the rotated page
        loaded.set_rotation(0)
    try:
        is_annotated = has_annotations(loaded)
        is_form = is_annotated and has_form_fields(loaded)
        text = load_text_page(loaded, include_images=bool(sizes), is_form=is_form)
        links = read_link_areas(loaded) if is_annotated else []
        page.annotations = read_annotations(document, loaded) if is_annotated else None
    finally:
        if page.rotation:
            loaded.set_rotation(page.rotation)
    page.lines = join_vertical_lines(remove_overprints(read_lines(text, links, has_images=bool(sizes))))
    if not page.lines and listed_sizes:
        page.issue = PageIssue.SCAN
    if page.annotations:
        page.lines += page.annotations.field_lines
    if page.lines and sizes:
        large_images = [image for image in iter_images(text) if (image.width, image.height) in sizes]
        page.images = image_extractor.extract_images(
            image for image in large_images if not _is_background(image, page.lines)
        )


def _read_page_images(document: Any, page: PdfPage, image_extractor: PdfImageExtractor) -> None:
    """Extract the images of a page without lines; they are its only content."""
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
    """Return the sizes of the images that a page may use.

    A damaged list is treated as empty, so that the text of the page is still read.
    """
    try:
        return [(int(entry[2]), int(entry[3])) for entry in loaded.get_images()]
    except mupdf.FzErrorSystem:
        raise
    except (*_PAGE_ERRORS, TypeError, IndexError, KeyError):
        return []


def _is_background(image: PdfImage, lines: Sequence[TextLine]) -> bool:
    """Return whether most of the text of a page is on an image.

    Such an image is decoration, or a scan with a text layer from an earlier OCR.
    """
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
    """Raise CorruptFile if half of the pages or more are damaged, NoTextFound if there is neither text nor an image."""
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
        raise NoTextFound(f"The fonts of this PDF do not name their characters, so it cannot be read{reason}.")
    if pages.list_page_numbers(PageIssue.NO_TEXT):
        raise NoTextFound("This PDF has only images, in which OCR found no text.")
    if broken or document.is_repaired:
        raise CorruptFile
    raise NoTextFound


def iter_warnings(document: Any, pages: PdfPages, options: ParseOptions) -> Iterator[ServiceWarning]:
    """Yield the warnings about pages and images that were not read.

    Args:
        document: Document of PyMuPDF.
        pages: Pages of the document.
        options: Options of the parser call, with the language data.

    Yields:
        A warning for the owner of the document.
    """
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
        message = f"{len(garbled)} of {count} pages have fonts that do not name their characters."
        yield ServiceWarning(WarningCode.FONTS_NOT_READABLE, message)
    if without_text := pages.list_page_numbers(PageIssue.NO_TEXT):
        verb = "has" if len(without_text) == 1 else "have"
        message = f"{format_page_ranges(without_text)} {verb} only images, in which OCR found no text."
        yield ServiceWarning(WarningCode.PAGES_WITHOUT_TEXT, message)
    if any(page.is_ocr for page in pages.pages):
        yield from list_language_warnings(options.ocr)
    extracted = {image.key for page in pages.pages for image in page.images if image.image_index is not None}
    yield from list_image_warnings(len(find_content_images([page.images for page in pages.pages]) - extracted))

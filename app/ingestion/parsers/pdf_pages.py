"""The pages of a PDF: their lines, by OCR where they have none, and a sentence for all that was not read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.mupdf_page import Picture, lines_of, pictures_of, read_page
from app.ingestion.parsers.ocr import Recogniser, advice, missing_languages, page_list
from app.ingestion.parsers.pdf_layout import Line
from app.ingestion.parsers.pdf_pictures import PdfPictures, ShownPicture, worthwhile
from app.ingestion.parsers.pictures import MIN_SIDE
from app.ingestion.types import Corrupt, NoText, ParserMemory

UNREADABLE_SHARE = 0.4
"""A page with more unreadable characters has a font without a character map: what comes out is noise, not text."""

_UNREADABLE = re.compile(r"[\ufffd\x00-\x08\x0e-\x1f\ue000-\uf8ff]")
_BROKEN = (mupdf.FzErrorBase, RuntimeError, ValueError)


class Trouble(Enum):
    """Why a page gives no text."""

    BROKEN = auto()
    GARBLED = auto()
    SCAN = auto()
    WORDLESS = auto()


@dataclass(slots=True)
class Page:
    """What was read of one page; ``height`` in points, ``recognised`` by OCR.

    ``shown`` are width and height of the page as it is shown, which is turned by ``rotation`` from how its lines lie.
    ``scale`` makes the sizes of recognised lines comparable with those of other pages.
    """

    number: int
    lines: list[Line] = field(default_factory=list)
    height: float = 0.0
    shown: tuple[float, float] = (0.0, 0.0)
    rotation: int = 0
    trouble: Trouble | None = None
    recognised: bool = False
    scale: float = 1.0
    pictures: list[ShownPicture] = field(default_factory=list)


@dataclass(slots=True)
class Pages:
    """All pages in order, and why OCR stopped, if it did before all was read."""

    pages: list[Page]
    obstacle: str = ""

    def numbers(self, trouble: Trouble) -> list[int]:
        """The pages with that trouble."""
        return [page.number for page in self.pages if page.trouble is trouble]


def read_pages(document: Any, options: ParseOptions, pictures: PdfPictures) -> Pages:
    """All text first, then OCR for as long as there is time; at last the pictures of pages without text.

    Raises ParserMemory, TooMuchText, Corrupt, NoText."""
    recogniser, counter = Recogniser(options), BlockList(options)
    pages = Pages([])
    try:
        for index in range(document.page_count):
            page = _read(document, index, pictures)
            counter.count(sum(len(line.text) for line in page.lines))
            pages.pages.append(page)
            options.report(page.number, document.page_count)
        for page in pages.pages:
            if page.trouble in (Trouble.SCAN, Trouble.GARBLED):
                pages.obstacle = recogniser.obstacle
                if pages.obstacle:
                    break
                _recognise(document, page, recogniser)
                options.report(page.number, document.page_count)
        if pictures.list.wanted:
            for page in pages.pages:
                _look_at(document, page, pictures)
    except mupdf.FzErrorSystem as exc:  # MuPDF's word for an allocation that fails
        raise ParserMemory from exc
    _check(document, pages, options)
    return pages


def _read(document: Any, index: int, pictures: PdfPictures) -> Page:
    page = Page(index + 1)
    try:
        loaded = document.load_page(index)
        shown = loaded.rect
        page.shown = shown.width, shown.height
        page.rotation = loaded.rotation
        page.height = shown.width if page.rotation in (90, 270) else shown.height
        _read_text(loaded, page, pictures)
    except mupdf.FzErrorSystem:
        raise
    except _BROKEN:
        page.lines, page.trouble = [], Trouble.BROKEN
    text = "".join(line.text for line in page.lines)
    if text and _is_garbled(text):
        page.lines, page.trouble = [], Trouble.GARBLED
    return page


def _is_garbled(text: str) -> bool:
    if text.isprintable() and "\ufffd" not in text:  # quicker to ask, and no other unreadable character is printable
        return False
    return len(_UNREADABLE.findall(text)) > UNREADABLE_SHARE * len(text)


def _read_text(loaded: Any, page: Page, pictures: PdfPictures) -> None:
    listed = _listed_pictures(loaded)
    sizes = _large_enough(listed)
    if page.rotation:  # text lies upright in the unrotated page, a scan in the rotated one
        loaded.set_rotation(0)
    try:
        text = read_page(loaded, pictures=bool(sizes))
    finally:
        if page.rotation:
            loaded.set_rotation(page.rotation)
    page.lines = list(lines_of(text))
    if not page.lines and listed:
        page.trouble = Trouble.SCAN
    if page.lines and sizes:
        shown = [one for one in pictures_of(text) if (one.width, one.height) in sizes]
        page.pictures = pictures.shown(one for one in shown if not _is_background(one, page.lines))


def _look_at(document: Any, page: Page, pictures: PdfPictures) -> None:
    """Take the pictures of a page that nothing was read on: they are all that there is to it."""
    if page.lines or page.trouble is Trouble.BROKEN:
        return
    try:
        loaded = document.load_page(page.number - 1)
        sizes = _large_enough(_listed_pictures(loaded))
        found = pictures_of(read_page(loaded, pictures=True)) if sizes else ()
        page.pictures = pictures.shown(one for one in found if (one.width, one.height) in sizes)
    except mupdf.FzErrorSystem:
        raise
    except _BROKEN:
        return
    if page.trouble is Trouble.WORDLESS and any(one.picture is not None for one in page.pictures):
        page.trouble = None


def _large_enough(sizes: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    return {size for size in sizes if min(size) >= MIN_SIDE}


def _listed_pictures(loaded: Any) -> list[tuple[int, int]]:
    """Sizes of the pictures that the page may use; a list that cannot be read does not cost the page its text."""
    try:
        return [(int(entry[2]), int(entry[3])) for entry in loaded.get_images()]
    except mupdf.FzErrorSystem:
        raise
    except (*_BROKEN, TypeError, IndexError, KeyError):
        return []


def _is_background(picture: Picture, lines: Sequence[Line]) -> bool:
    """Most of the page's text lies on it: paper with a layer of text from an earlier OCR, or decoration."""
    inside = sum(len(line.text) for line in lines if _lies_on(line, picture))
    return 2 * inside > sum(len(line.text) for line in lines)


def _lies_on(line: Line, picture: Picture) -> bool:
    x, y = (line.x0 + line.x1) / 2, (line.y0 + line.y1) / 2
    return picture.x0 <= x <= picture.x1 and picture.y0 <= y <= picture.y1


def _recognise(document: Any, page: Page, recogniser: Recogniser) -> None:
    loaded = document.load_page(page.number - 1)
    try:
        page.lines = recogniser.read(loaded)
        page.height, page.rotation = loaded.rect.height, 0
    except Corrupt:
        page.trouble = Trouble.BROKEN
        return
    page.recognised = bool(page.lines)
    if page.recognised:
        page.trouble = None
    elif page.trouble is Trouble.SCAN:
        page.trouble = Trouble.WORDLESS


def _check(document: Any, pages: Pages, options: ParseOptions) -> None:
    """Raises Corrupt where half of the pages or more are, NoText where there is none."""
    count = len(pages.pages)
    broken, garbled = len(pages.numbers(Trouble.BROKEN)), len(pages.numbers(Trouble.GARBLED))
    if 2 * broken >= count:
        raise Corrupt
    if any(page.lines or any(one.picture is not None for one in page.pictures) for page in pages.pages):
        return
    remedy = "" if options.ocr.languages else f"; {advice(options.ocr)}"
    if scans := len(pages.numbers(Trouble.SCAN)):
        they = "1 page of this PDF looks like a scan" if scans == 1 else f"{scans} pages of this PDF look like scans"
        raise NoText(f"{they} and could not be read: {pages.obstacle}{remedy}.")
    if garbled:
        why = f" without OCR: {pages.obstacle}{remedy}" if pages.obstacle else ""
        raise NoText(f"The fonts of this PDF do not say which characters they draw, so it cannot be read{why}.")
    if pages.numbers(Trouble.WORDLESS):
        raise NoText("This PDF has pictures alone, and no text was found in them.")
    if broken or document.is_repaired:
        raise Corrupt
    raise NoText


def warnings_of(document: Any, pages: Pages, options: ParseOptions) -> Iterator[str]:
    """What the document's owner should know."""
    count = len(pages.pages)
    if document.is_repaired:
        yield "The file is damaged; what could be read of it was kept."
    if broken := pages.numbers(Trouble.BROKEN):
        yield f"{len(broken)} of {count} pages are damaged and could not be read."
    if scans := pages.numbers(Trouble.SCAN):
        they = "looks like a scan and was" if len(scans) == 1 else "look like scans and were"
        yield f"{page_list(scans)} {they} not read: {pages.obstacle}."
    if garbled := pages.numbers(Trouble.GARBLED):
        yield f"{len(garbled)} of {count} pages have fonts whose characters cannot be read."
    if wordless := pages.numbers(Trouble.WORDLESS):
        has = "has" if len(wordless) == 1 else "have"
        yield f"{page_list(wordless)} {has} pictures alone, and no text was found in them."
    if any(page.recognised for page in pages.pages) and (missing := missing_languages(options.ocr)):
        yield missing
    taken = {one.key for page in pages.pages for one in page.pictures if one.picture is not None}
    if pictures := len(worthwhile([page.pictures for page in pages.pages]) - taken):
        yield "1 picture was not read." if pictures == 1 else f"{pictures} pictures were not read."

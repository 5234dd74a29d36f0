"""PDF, and the only home of PyMuPDF: pages → lines → reading order → blocks with page numbers."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.cleaning import clean_line, normalize_characters
from app.ingestion.parsers.pdf_layout import Group, Line, hyphenated_words, read_page
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, Corrupt, Encrypted, NoText, ParsedDocument, ParserMemory

HEADING_RATIO = 1.15
MARGIN_SHARE = 0.1
MAX_HEADING_CHARACTERS = 200
REPLACEMENT_SHARE = 0.4
"""A page with more U+FFFD than this has a font without a character map: what comes out is noise, not text."""

_FLAGS = pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES & ~pymupdf.TEXT_PRESERVE_LIGATURES
_SCALE = 16.0
"""MuPDF writes whole numbers; scaled up they keep a sixteenth of a point."""

_EDGE_LINES = 3
_PAGE_NUMBER_LENGTH = 12
_NUMBERS = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_NUMBERING = re.compile(r"^[\W\d_]+")
_NOT_WORD = re.compile(r"[\W_]+")
_UNTITLED = re.compile(r"untitled|microsoft (word|powerpoint)|.*\.(docx?|pptx?|tex|dvi|indd|qxd)$", re.IGNORECASE)
_BULLETS = str.maketrans({"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "‣", "\uf02d": "–", "\uf06c": "•", "\uf06e": "▪"})


@dataclass(slots=True)
class _Pages:
    """What was read: lines and height in points by page, and how many pages gave none."""

    lines: list[list[Line]] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    pictures: int = 0
    garbled: int = 0
    broken: int = 0


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Raises Encrypted, Corrupt, NoText, ParserMemory, TooManyPages, TooMuchText."""
    fitz: Any = pymupdf  # it ships without types
    fitz.TOOLS.mupdf_display_errors(False)
    fitz.TOOLS.mupdf_display_warnings(False)
    try:
        with fitz.open(path, filetype="pdf") as document:
            return _parse(document, options)
    except mupdf.FzErrorSystem as exc:
        raise ParserMemory from exc
    except (pymupdf.FileDataError, pymupdf.EmptyFileError, mupdf.FzErrorBase) as exc:
        raise Corrupt from exc
    finally:
        fitz.TOOLS.store_shrink(100)


def _parse(document: Any, options: ParseOptions) -> ParsedDocument:
    if document.needs_pass and not document.authenticate(""):
        raise Encrypted
    if not document.is_pdf or document.page_count == 0:
        raise Corrupt
    check_pages(document.page_count, options)
    blocks = BlockList(options)
    pages = _read(document, options)
    _check_text(document, pages)
    body = _body_size(pages.lines)
    _drop_repeated(pages, body)
    hyphenated = hyphenated_words(chain.from_iterable(pages.lines))
    groups = [(n, group) for n, lines in enumerate(pages.lines, start=1) for group in read_page(lines, hyphenated)]
    headings = _Headings(_outline(document), body, groups)
    for number, group in groups:
        _add(group, number, headings, blocks)
    return ParsedDocument(
        blocks.blocks,
        title=_title(document) or blocks.first_heading(),
        page_count=document.page_count,
        warnings=list(_warnings(document, pages)),
    )


def _read(document: Any, options: ParseOptions) -> _Pages:
    pages, counter = _Pages(), BlockList(options)
    for number in range(document.page_count):
        lines: list[Line] = []
        height = 0.0
        try:
            page = document.load_page(number)
            lines = list(_lines(page))
            height = page.cropbox.height
            if not lines and page.get_images():
                pages.pictures += 1
        except mupdf.FzErrorSystem as exc:  # MuPDF's word for an allocation that fails
            raise ParserMemory from exc
        except (mupdf.FzErrorBase, RuntimeError, ValueError):
            pages.broken += 1
        text = sum(len(line.text) for line in lines)
        if text and sum(line.text.count("\ufffd") for line in lines) > REPLACEMENT_SHARE * text:
            pages.garbled += 1
            lines = []
        counter.count(text)
        pages.lines.append(lines)
        pages.heights.append(height)
    return pages


def _lines(page: Any) -> Iterator[Line]:
    """The page's lines as MuPDF finds them, in the order of the file.

    MuPDF's own JSON is twice as fast as PyMuPDF's dictionaries, and its own calls raise errors that can be told apart.
    """
    if page.rotation:  # text lies upright in the unrotated page
        page.set_rotation(0)
    source = page.this.super() if isinstance(page.this, mupdf.PdfPage) else page.this
    text = mupdf.FzStextPage(mupdf.fz_bound_page(source))
    device = mupdf.fz_new_stext_device(text, mupdf.FzStextOptions(_FLAGS))
    mupdf.fz_run_page(source, device, mupdf.FzMatrix(), mupdf.FzCookie())
    mupdf.fz_close_device(device)
    buffer = mupdf.FzBuffer(4096)
    output = mupdf.FzOutput(buffer)
    mupdf.fz_print_stext_page_as_json(output, text, _SCALE)
    output.fz_close_output()
    found = json.loads(buffer.fz_buffer_extract().decode("utf-8", "replace"), strict=False)
    for index, block in enumerate(found["blocks"]):
        for raw in block.get("lines", ()):
            if raw["text"].strip():
                yield _line(raw, index)


def _line(raw: dict[str, Any], block: int) -> Line:
    box = raw["bbox"]
    x, y = box["x"] / _SCALE, box["y"] / _SCALE
    text = raw["text"]
    if not text.isascii():
        text = text.translate(_BULLETS)
    return Line(x, y, x + box["w"] / _SCALE, y + box["h"] / _SCALE, raw["font"]["size"] / _SCALE, text, block)


def _check_text(document: Any, pages: _Pages) -> None:
    count = document.page_count
    if 2 * pages.broken >= count:
        raise Corrupt
    if any(pages.lines):
        return
    if pages.garbled:
        raise NoText("The fonts of this PDF do not say which characters they draw, so its text cannot be read.")
    if pages.pictures:
        raise NoText(f"The {count} pages seem to be scans; reading text from pictures (OCR) is not available yet.")
    if pages.broken or document.is_repaired:
        raise Corrupt
    raise NoText


def _warnings(document: Any, pages: _Pages) -> Iterator[str]:
    count = document.page_count
    if document.is_repaired:
        yield "The file is damaged; what could be read of it was kept."
    if pages.broken:
        yield f"{pages.broken} of {count} pages are damaged and could not be read."
    if pages.pictures:
        yield (
            f"{pages.pictures} of {count} pages have no text and seem to be scans; "
            "reading text from pictures (OCR) is not available yet."
        )
    if pages.garbled:
        yield f"{pages.garbled} of {count} pages have fonts whose characters cannot be read."


def _body_size(pages: list[list[Line]]) -> float:
    """The font size of most characters, in points."""
    sizes: Counter[float] = Counter()
    for line in chain.from_iterable(pages):
        sizes[round(line.size, 1)] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _drop_repeated(pages: _Pages, body: float) -> None:
    """Take away running headers and footers: the same words, digits apart, at the same height of many pages.

    Nothing set larger than the body goes: "Lesson 1" and "Lesson 2" stand at the same place too.
    """
    needed = max(3, min(10, round(0.4 * len(pages.lines))))
    edges = [_edges(lines, height) for lines, height in zip(pages.lines, pages.heights, strict=True)]
    counts = Counter(key for page in edges for key in set(page.values()))
    for lines, page in zip(pages.lines, edges, strict=True):
        repeated = {index for index, key in page.items() if counts[key] >= needed}
        lines[:] = [
            line for index, line in enumerate(lines) if index not in repeated or line.size > HEADING_RATIO * body
        ]


def _edges(lines: list[Line], height: float) -> dict[int, tuple[str, int]]:
    """Index of each line that may belong to the frame → its words with numbers masked, and its height in 6 points.

    That is one of the outermost lines, in the page's margin or little more than a number.
    """
    order = sorted(range(len(lines)), key=lambda index: lines[index].y0)
    found = {}
    for index in {*order[:_EDGE_LINES], *order[-_EDGE_LINES:]}:
        line = lines[index]
        words = _NUMBERS.sub("#", clean_line(line.text))
        in_margin = line.y1 < MARGIN_SHARE * height or line.y0 > (1 - MARGIN_SHARE) * height
        if in_margin or ("#" in words and len(words) < _PAGE_NUMBER_LENGTH):
            found[index] = (words, round(line.y0 / 6))
    return found


def _outline(document: Any) -> dict[int, dict[str, int]]:
    """Page number → bare title → level. A broken outline is as good as none."""
    found: dict[int, dict[str, int]] = {}
    try:
        entries = document.get_toc(simple=True)
    except (mupdf.FzErrorBase, RuntimeError, ValueError, TypeError, IndexError):
        return found
    for level, title, page in entries:
        if bare := _bare(title):
            found.setdefault(page, {})[bare] = min(int(level), 6)
    return found


def _bare(title: str) -> str:
    """A title without numbering, case, spaces and punctuation."""
    return _NOT_WORD.sub("", _NUMBERING.sub("", normalize_characters(title))).casefold()


class _Headings:
    """Decides which paragraphs are headings: those the outline names, else those set larger than the body.

    An outline that names nothing on its pages (bookmarks like "Page 3") is as good as none.
    """

    def __init__(self, outline: dict[int, dict[str, int]], body: float, groups: list[tuple[int, Group]]) -> None:
        self._outline = outline if any(_bare(group.text) in outline.get(page, {}) for page, group in groups) else {}
        sizes = {round(group.size, 1) for _, group in groups if self._could_be(group)}
        larger = sorted((size for size in sizes if size > HEADING_RATIO * body), reverse=True)
        self._levels = {size: min(rank, 6) for rank, size in enumerate(larger, start=1)}

    def level(self, group: Group, page: int) -> int:
        """The heading's level from 1, 0 for a paragraph."""
        if not self._could_be(group):
            return 0
        if self._outline:
            return self._outline.get(page, {}).get(_bare(group.text), 0)
        return self._levels.get(round(group.size, 1), 0)

    @staticmethod
    def _could_be(group: Group) -> bool:
        return not group.rows and len(group.text) <= MAX_HEADING_CHARACTERS and any(map(str.isalpha, group.text))


def _add(group: Group, page: int, headings: _Headings, blocks: BlockList) -> None:
    if group.rows:
        blocks.add(BlockKind.TABLE, markdown_table(group.rows), page=page)
    elif level := headings.level(group, page):
        blocks.add(BlockKind.HEADING, group.text, level=level, page=page)
    else:
        blocks.add(BlockKind.PARAGRAPH, group.text, page=page)


def _title(document: Any) -> str | None:
    title = clean_line((document.metadata or {}).get("title") or "")
    return title if title and not _UNTITLED.match(title) else None

"""PDF: pages → lines → reading order → blocks with page numbers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any

import pymupdf
from pymupdf import mupdf

from app.characters import normalize_characters
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList, check_pages
from app.ingestion.parsers.cleaning import clean_line, clean_text
from app.ingestion.parsers.pdf_layout import Group, Line, hyphenated_words, read_page
from app.ingestion.parsers.pdf_pages import Page, read_pages, warnings_of
from app.ingestion.parsers.pdf_pictures import PdfPictures, ShownPicture, with_pictures, worthwhile
from app.ingestion.parsers.pdf_places import Places, table_ranges
from app.ingestion.parsers.pictures import PictureList
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import Block, BlockKind, Corrupt, Encrypted, ParsedDocument, ParserMemory

HEADING_RATIO = 1.15
MARGIN_SHARE = 0.1
MAX_HEADING_CHARACTERS = 200

_EDGE_LINES = 3
_PAGE_NUMBER_LENGTH = 12
_NUMBERS = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_NUMBERING = re.compile(r"^[\W\d_]+")
_NOT_WORD = re.compile(r"[\W_]+")
_UNTITLED = re.compile(r"untitled|microsoft (word|powerpoint)|.*\.(docx?|pptx?|tex|dvi|indd|qxd)$", re.IGNORECASE)


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
    pictures = PictureList(blocks, options)
    read = read_pages(document, options, PdfPictures(pictures))
    pages = read.pages
    body = _body_size(pages)
    _drop_repeated(pages, body)
    hyphenated = hyphenated_words(chain.from_iterable(page.lines for page in pages))
    groups = [(page.number, group) for page in pages for group in _groups(page, hyphenated)]
    headings = _Headings(_outline(document), body, groups)
    places = Places(pages)
    for number, item in _in_order(pages, groups):
        if isinstance(item, Group):
            _add(item, number, headings, places, blocks)
        else:
            pictures.place(item.picture, page=number)
    return ParsedDocument(
        blocks.blocks,
        title=_title(document) or blocks.first_heading(),
        page_count=document.page_count,
        warnings=list(warnings_of(document, read, options)),
        pictures=pictures.pictures,
    )


def _in_order(pages: Sequence[Page], groups: Sequence[tuple[int, Group]]) -> Iterator[tuple[int, Group | ShownPicture]]:
    """Page by page; a picture stands where it is first shown."""
    by_page: dict[int, list[Group]] = {}
    for number, group in groups:
        by_page.setdefault(number, []).append(group)
    waiting = worthwhile([page.pictures for page in pages])
    for page in pages:
        new = {one.key: one for one in page.pictures if one.picture is not None and one.key in waiting}
        waiting -= new.keys()
        for item in with_pictures(by_page.get(page.number, ()), new.values()):
            yield page.number, item


def _groups(page: Page, hyphenated: Set[str]) -> Iterator[Group]:
    for group in read_page(page.lines, hyphenated):
        yield group._replace(size=group.size * page.scale) if page.recognised else group


def _body_size(pages: Sequence[Page]) -> float:
    """The font size of most characters, in points; recognised pages are brought to it, as theirs are estimates."""
    printed = [page for page in pages if page.lines and not page.recognised]
    body = _most_common_size(printed or pages)
    for page in pages:
        if page.recognised:
            page.scale = body / (_most_common_size([page]) or body)
    return body


def _most_common_size(pages: Sequence[Page]) -> float:
    exact: dict[float, int] = {}
    for line in chain.from_iterable(page.lines for page in pages):
        exact[line.size] = exact.get(line.size, 0) + len(line.text)
    sizes: Counter[float] = Counter()
    for size, characters in exact.items():
        sizes[round(size, 1)] += characters
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _drop_repeated(pages: Sequence[Page], body: float) -> None:
    """Take away running headers and footers: the same words, digits apart, at the same height of many pages.

    Nothing set larger than the body goes: "Lesson 1" and "Lesson 2" stand at the same place too.
    """
    needed = max(3, min(10, round(0.4 * len(pages))))
    edges = [_edges(page.lines, page.height) for page in pages]
    counts = Counter(key for found in edges for key in set(found.values()))
    for page, found in zip(pages, edges, strict=True):
        repeated = {index for index, key in found.items() if counts[key] >= needed}
        page.lines = [
            line
            for index, line in enumerate(page.lines)
            if index not in repeated or line.size * page.scale > HEADING_RATIO * body
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
        named = (page in outline and _bare(group.text) in outline[page] for page, group in groups)
        self._outline = outline if any(named) else {}
        sizes = {round(group.size, 1) for _, group in groups if group.size > body and self._could_be(group)}
        larger = sorted((size for size in sizes if size > HEADING_RATIO * body), reverse=True)
        self._levels = {size: min(rank, 6) for rank, size in enumerate(larger, start=1)}

    def level(self, group: Group, page: int) -> int:
        """The heading's level from 1, 0 for a paragraph."""
        if not self._could_be(group):
            return 0
        if self._outline:
            titles = self._outline.get(page)
            return titles.get(_bare(group.text), 0) if titles else 0
        return self._levels.get(round(group.size, 1), 0)

    @staticmethod
    def _could_be(group: Group) -> bool:
        return not group.rows and len(group.text) <= MAX_HEADING_CHARACTERS and any(map(str.isalpha, group.text))


def _add(group: Group, page: int, headings: _Headings, places: Places, blocks: BlockList) -> None:
    if group.rows:
        text, level, kind = clean_text(markdown_table(group.rows)), 0, BlockKind.TABLE
        ranges = table_ranges(text, len(group.rows))
    else:
        text, level, ranges = group.text, headings.level(group, page), group.ranges
        kind = BlockKind.HEADING if level else BlockKind.PARAGRAPH
    if text:
        printed = places.printed(page, group.lines, ranges)
        blocks.append(Block(kind, text, level=level, page=page, printed=printed))


def _title(document: Any) -> str | None:
    title = clean_line((document.metadata or {}).get("title") or "")
    return title if title and not _UNTITLED.match(title) else None

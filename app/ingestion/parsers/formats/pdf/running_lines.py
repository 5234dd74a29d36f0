"""Removal of running headers, running footers and page numbers of a PDF file."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.layout import is_aligned
from app.ingestion.parsers.formats.pdf.pages import PdfPage
from app.ingestion.parsers.formats.pdf.text_line import TextLine, group_rows
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.warnings import ServiceWarning, WarningCode

HEADING_RATIO = 1.15
MARGIN_SHARE = 0.1
MAX_RUNNING_CHARACTERS = 120
MAX_OFFSET = 30
"""Maximum difference between a page number and the position of its page in the file, if no word marks the number."""

_MAX_EDGE_ROWS = 3
_MAX_EDGE_LINES = 12
_MAX_CELL_CHARACTERS = 30
_NUMBER = r"(?P<number>\d{1,5}|[ivxlc]{1,8})"
_WORD = (
    r"(?P<word>(?:page|pages|pg|p|seite|s|blatt|página|pagina|pàgina|pág|pag|side|sida|sivu|strona|str|"
    r"стр|страница|σελ|σελίδα|sayfa|oldal|folio|第)\b[\s.:]{0,4}|第)"
)
_TOTAL = r"(?P<total>\s?(?:/|of|von|de|di|van|av|af|из|z|od|sur)\s?\d{1,5})"
_ALONE = re.compile(
    rf"[\W_]{{0,8}}{_WORD}?(?P<prefix>[A-Z]-)?{_NUMBER}{_TOTAL}?(?P<suffix>\s?(?:[頁页쪽]|ページ))?[\W_]{{0,8}}",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"{_NUMBER}\s?[\s|·•–—-]\s?(?P<rest>[^\W\d].*)", re.IGNORECASE)
_LAST = re.compile(
    rf"(?P<rest>.*[^\s|·•–—])(?:(?:\t|\s?[|·•–—]\s?){_WORD}?|[\s/][^\w\s]?\s?(?P<name>(?:page|seite|página|pagina|pág|стр)\b[\s.:]{{1,4}}))"
    rf"{_NUMBER}{_TOTAL}?[\W_]{{0,8}}",
    re.IGNORECASE,
)
_LABEL_END = re.compile(r"[:.#№°]$|\b(?:no|nr|num|number|nummer|numero|número|id|code)$", re.IGNORECASE)
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Key(NamedTuple):
    """Key that is equal for the copies of a running row.

    Attributes:
        is_at_top: Whether the row is in the upper half of the page.
        height: Height on the page in units of 6 points.
        text: Text without the page number; empty for a row that only has a page number.
        offset: Page number minus the position of the page in the file; None for a row that is equal as written.
        is_marked: Whether a word such as "page" or the total number of pages marks the page number.
    """

    is_at_top: bool
    height: int
    text: str
    offset: int | None = None
    is_marked: bool = False


class _EdgeRow(NamedTuple):
    """Row at the top or the bottom of a page: its lines from left to right, and its keys."""

    lines: list[TextLine]
    keys: list[_Key]


def remove_running_lines(pages: Sequence[PdfPage], body: float) -> list[ServiceWarning]:
    """Remove running headers, running footers and page numbers, but keep the first copy of each text.

    A running row is short, is at the edge of several pages, and is equal on these pages as written. Only one page
    number may differ, which counts up by one per page. A row of a table and a row in a larger font than the body stay.

    Args:
        pages: Pages of the document. Their lines change.
        body: Font size of the body in points.

    Returns:
        A warning with the number of removed rows, if there are any.
    """
    default_count = max(3, min(10, round(0.4 * len(pages))))
    edges = [(page, list(_iter_edge_rows(page, body))) for page in pages]
    counts = Counter(key for _, rows in edges for key in {key for row in rows for key in row.keys})
    removed, first_copies = 0, set[str]()
    for page, rows in edges:
        dropped: set[TextLine] = set()
        for row in rows:
            if row.lines[0] in dropped:
                continue
            texts = [key.text for key in row.keys if counts[key] >= (2 if key.is_marked else default_count)]
            if texts:
                text = min(texts, key=len)
                if text in first_copies or not text:
                    dropped.update(row.lines)
                    removed += 1
                first_copies.add(text)
        if dropped:
            page.lines = [line for line in page.lines if line not in dropped]
    if not removed:
        return []
    subject = (
        "1 repeated header or footer line was" if removed == 1 else f"{removed} repeated header or footer lines were"
    )
    return [ServiceWarning(WarningCode.REPEATED_LINES_REMOVED, f"{subject} left out.", removed)]


def _iter_edge_rows(page: PdfPage, body: float) -> Iterator[_EdgeRow]:
    """Yield the outermost rows of a page that can be running rows."""
    ordered = sorted(page.lines, key=lambda line: line.y0)
    is_whole = len(ordered) <= 2 * _MAX_EDGE_LINES
    top = group_rows(ordered if is_whole else ordered[:_MAX_EDGE_LINES])
    bottom = top if is_whole else group_rows(ordered[-_MAX_EDGE_LINES:])
    top_count = min(_MAX_EDGE_ROWS, (len(top) + 1) // 2 if is_whole else len(top))
    rows = [(top[index], top[index + 1 : index + 2]) for index in range(top_count)]
    start = max(top_count, len(bottom) - _MAX_EDGE_ROWS) if is_whole else max(0, len(bottom) - _MAX_EDGE_ROWS)
    rows += [(bottom[index], bottom[max(0, index - 1) : index]) for index in range(start, len(bottom))]
    for row, neighbors in rows:
        is_large = any(line.size * page.size_scale > HEADING_RATIO * body for line in row)
        if is_large or any(_is_table_row(row, neighbor) for neighbor in neighbors):
            continue
        text = "\t".join(clean_line(line.text) for line in row)
        if text.strip() and len(text) <= MAX_RUNNING_CHARACTERS:
            yield _EdgeRow(row, list(_iter_keys(row, text, page)))
            for line in row if len(row) > 1 else ():
                keys = [
                    key for key in _iter_keys([line], clean_line(line.text), page) if key.is_marked and not key.text
                ]
                yield _EdgeRow([line], keys)


def _is_table_row(row: list[TextLine], neighbor: list[TextLine]) -> bool:
    if len(row) < 2 or len(row) != len(neighbor) or any(len(line.text) > _MAX_CELL_CHARACTERS for line in neighbor):
        return False
    return is_aligned(*sorted((row, neighbor), key=lambda lines: lines[0].y0))


def _iter_keys(row: list[TextLine], text: str, page: PdfPage) -> Iterator[_Key]:
    y0, y1 = row[0].y0, row[0].y1
    is_at_top, height = y0 < page.height / 2, round(y0 / 6)
    is_in_margin = y1 < MARGIN_SHARE * page.height or y0 > (1 - MARGIN_SHARE) * page.height
    if is_in_margin:
        yield _Key(is_at_top, height, text)
    if match := _ALONE.fullmatch(text):
        offset = _read_number(match["number"]) - page.number
        is_marked = bool(match["word"] or match["total"] or match["suffix"] or match["prefix"])
        if is_marked or not is_at_top or abs(offset) <= MAX_OFFSET:
            yield _Key(is_at_top, height, "", offset, is_marked)
    elif is_in_margin:
        yield from _iter_numbered_keys(text, is_at_top, height, page.number)


def _iter_numbered_keys(text: str, is_at_top: bool, height: int, position: int) -> Iterator[_Key]:
    """Yield the keys of a row that has other words and may have a page number at its start or its end."""
    for pattern in (_FIRST, _LAST):
        match = pattern.fullmatch(text)
        if not match:
            continue
        groups = match.groupdict()
        is_marked = bool(groups.get("word") or groups.get("name") or groups.get("total"))
        offset, title = _read_number(match["number"]) - position, match["rest"].strip()
        is_title = pattern is _FIRST or (len(title.split()) > 1 and not _LABEL_END.search(title))
        if is_marked or (abs(offset) <= MAX_OFFSET and is_title):
            yield _Key(is_at_top, height, title, offset, is_marked)


def _read_number(text: str) -> int:
    """Return the value of a number in digits or in Roman numerals."""
    if text.isdigit():
        return int(text)
    values = [_ROMAN[letter] for letter in text.lower()]
    return sum(-value if value < max(values[index:]) else value for index, value in enumerate(values))

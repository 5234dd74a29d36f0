"""The layout of a PDF page, pure: boxes of lines → reading order → paragraphs and tables."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.joining import join_lines

BINS = 128
MIN_COLUMN_SHARE = 0.15
"""Each column holds at least this share of the text's height; less is a margin note or a page number."""

MIN_COLUMN_CHARACTERS = 14
"""Mean line length of a column of prose; what is shorter is a table or a table of contents, read row by row."""

_BULLET = re.compile(r"[•‣▪●○◦■□–\-*·]\s|\(?\d{1,3}[.)]\s|\(?[a-z][.)]\s")
_HYPHENATED = re.compile(r"\w+-\w+")
_SENTENCE_END = (".", "!", "?", ":", ";", "…", "。", "”", '"')


class Line(NamedTuple):
    """One printed line, or a piece of one between wide spaces.

    Coordinates in points from the top left corner, ``size`` of the font in points. A tuple, because a page has so many
    of them: a frozen dataclass takes thrice the time to make.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    text: str
    block: int = 0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def vertical(self) -> bool:
        """Set from bottom to top or top to bottom."""
        return self.height > 2 * (self.x1 - self.x0) and len(self.text) > 2


class Group(NamedTuple):
    """A paragraph (``rows`` empty) or a table (``text`` empty); ``size`` is the font size of its first line.

    ``lines`` are the printed ones, one a row of a table; ``ranges`` where each of them is in the text.
    """

    text: str
    size: float
    rows: tuple[tuple[str, ...], ...] = ()
    lines: Sequence[Line] = ()
    ranges: Sequence[tuple[int, int]] = ()


def hyphenated_words(lines: Iterable[Line]) -> frozenset[str]:
    """Words with a hyphen inside a line, in small letters: where such a word is parted, the hyphen is its own."""
    return frozenset(word.lower() for line in lines if "-" in line.text for word in _HYPHENATED.findall(line.text))


def read_page(lines: Sequence[Line], hyphenated: Set[str] = frozenset()) -> Iterator[Group]:
    """The groups of a page in reading order; vertical text comes last."""
    vertical = [line for line in lines if line.vertical]
    upright = [line for line in lines if not line.vertical] if vertical else lines
    for region in _regions(upright):
        yield from _groups(_rows(region), hyphenated)
    for line in vertical:
        yield _paragraph([line], hyphenated)


def _regions(lines: Sequence[Line], depth: int = 0) -> Iterator[Sequence[Line]]:
    """XY-cut (Nagy and Seth 1984) whose vertical cuts may be crossed: full-width lines part the columns into bands.

    Cutting vertically first keeps columns whole where their lines stand at equal heights.
    """
    gutter = _gutter(lines) if depth < 6 else None
    if gutter is None:
        if lines:
            yield lines
        return
    left: list[Line] = []
    right: list[Line] = []
    across: list[Line] = []
    for line in sorted(lines, key=lambda one: one.y0):
        if line.x0 < gutter < line.x1:
            if left or right:
                yield from _band(across, left, right, depth)
                across, left, right = [], [], []
            across.append(line)
        else:
            (left if line.x1 <= gutter else right).append(line)
    yield from _band(across, left, right, depth)


def _band(across: list[Line], left: list[Line], right: list[Line], depth: int) -> Iterator[Sequence[Line]]:
    if across:
        yield across
    yield from _regions(left, depth + 1)
    yield from _regions(right, depth + 1)


def _gutter(lines: Sequence[Line]) -> float | None:
    """The x where most text stands wholly on either side and least runs across; None for a single column."""
    if len(lines) < 4:
        return None
    x0, x1 = min([line.x0 for line in lines]), max([line.x1 for line in lines])  # lists: quicker than generators
    if x1 - x0 < 1:
        return None
    scale = BINS / (x1 - x0)
    ends, starts = [0.0] * (BINS + 1), [0.0] * (BINS + 1)
    for line in lines:
        height = line.y1 - line.y0
        ends[min(BINS, int((line.x1 - x0) * scale) + 1)] += height
        starts[max(0, int((line.x0 - x0) * scale))] += height
    total = sum(starts)
    before = list(accumulate(ends))
    after = [total - value for value in accumulate(starts, initial=0.0)][: BINS + 1]
    best, place = 0.0, 0
    # Text in one column leaves nothing or little of this range.
    first = max(1, bisect_left(before, MIN_COLUMN_SHARE * total))
    for index in range(first, BINS):
        side = min(before[index], after[index])
        crossing = max(0.0, total - before[index] - after[index])
        if side >= MIN_COLUMN_SHARE * total and crossing <= 0.5 * side and side - 2 * crossing > best:
            best, place = side - 2 * crossing, index
    gutter = x0 + place / scale
    return gutter if place and _are_columns(lines, gutter) else None


def _are_columns(lines: Sequence[Line], gutter: float) -> bool:
    for side in ([one for one in lines if one.x1 <= gutter], [one for one in lines if one.x0 >= gutter]):
        if len(side) < 2 or sum(len(one.text) for one in side) < MIN_COLUMN_CHARACTERS * len(side):
            return False
    return True


def _rows(lines: Iterable[Line]) -> list[list[Line]]:
    """Lines that share a base line, from top to bottom, each row from left to right."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda one: (one.y1, one.x0)):
        if rows and _same_row(rows[-1][-1], line):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        if len(row) > 1:
            row.sort(key=lambda one: one.x0)
    return rows


def _same_row(one: Line, other: Line) -> bool:
    overlap = min(one.y1, other.y1) - max(one.y0, other.y0)
    return overlap > 0 and overlap > 0.5 * min(one.height, other.height)


def _groups(rows: list[list[Line]], hyphenated: Set[str]) -> Iterator[Group]:
    index, pending = 0, list[Line]()
    while index < len(rows):
        length = _table_length(rows, index)
        if length:
            yield from _paragraphs(pending, hyphenated)
            pending = []
            yield _table(rows[index : index + length])
            index += length
        else:
            pending.append(_joined_row(rows[index]))
            index += 1
    yield from _paragraphs(pending, hyphenated)


def _table_length(rows: list[list[Line]], index: int) -> int:
    """How many rows from here on have the same number of cells, standing under each other; 0 for fewer than three."""
    first, end = rows[index], index + 1
    if len(first) < 2 or not _separated(first):
        return 0
    while end < len(rows) and len(rows[end]) == len(first) and _aligned(rows[end - 1], rows[end]):
        end += 1
    return end - index if end - index >= 3 else 0


def _separated(row: list[Line]) -> bool:
    return all(right.x0 - left.x1 > left.size for left, right in pairwise(row))


def _aligned(upper: list[Line], lower: list[Line]) -> bool:
    if not _separated(lower) or lower[0].y0 - upper[0].y1 > 3 * upper[0].height:
        return False
    # Wide word spaces part lines of justified prose too, but nowhere twice at the same place.
    if any(
        row[i].x1 >= other[i + 1].x0 for row, other in ((upper, lower), (lower, upper)) for i in range(len(row) - 1)
    ):
        return False
    return all(_stacked(above, below) for above, below in zip(upper, lower, strict=True))


def _stacked(above: Line, below: Line) -> bool:
    tolerance = 0.5 * above.size
    return (
        abs(above.x0 - below.x0) < tolerance
        or abs(above.x1 - below.x1) < tolerance
        or abs(above.x0 + above.x1 - below.x0 - below.x1) < 2 * tolerance
    )


def _joined_row(row: list[Line]) -> Line:
    if len(row) == 1:
        return row[0]
    largest = max(row, key=lambda one: len(one.text))
    return Line(
        row[0].x0, min(one.y0 for one in row), row[-1].x1, max(one.y1 for one in row), largest.size,
        " ".join(one.text for one in row), row[0].block,
    )  # fmt: skip


def _paragraphs(lines: list[Line], hyphenated: Set[str]) -> Iterator[Group]:
    if not lines:
        return
    right = max(line.x1 for line in lines)
    begun = [lines[0]]
    for above, line in pairwise(lines):
        if _breaks(above, line, right):
            yield _paragraph(begun, hyphenated)
            begun = []
        begun.append(line)
    yield _paragraph(begun, hyphenated)


def _paragraph(lines: Sequence[Line], hyphenated: Set[str]) -> Group:
    text, ranges = join_lines((line.text for line in lines), hyphenated)
    return Group(text, lines[0].size, lines=lines, ranges=ranges)


def _table(rows: list[list[Line]]) -> Group:
    """Without the rows whose signs are all invisible, so that every row is a line of the table's text."""
    cells = [tuple(clean_line(cell.text) for cell in row) for row in rows]
    kept = [index for index, row in enumerate(cells) if any(row)]
    lines = [_joined_row(rows[index]) for index in kept]
    return Group("", rows[0][0].size, tuple(cells[index] for index in kept), lines)


def _breaks(above: Line, line: Line, right: float) -> bool:
    """Whether a paragraph begins at ``line``; ``right`` is the right edge of the column."""
    size = max(above.size, 1.0)
    if abs(line.size - above.size) > 0.12 * size or line.y0 - above.y1 > 0.7 * above.height:
        return True
    if _BULLET.match(line.text):
        return True
    short = above.x1 < right - 4 * size
    if short and line.block != above.block:
        return True
    indented = size < line.x0 - above.x0 < 6 * size
    return (short or indented) and above.text.rstrip().endswith(_SENTENCE_END)

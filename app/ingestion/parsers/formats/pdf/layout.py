"""Layout analysis of a PDF page: printed lines are put in reading order and grouped into paragraphs and tables."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, pairwise
from math import inf

from app.ingestion.parsers.formats.pdf.table_text import PageTable
from app.ingestion.parsers.formats.pdf.text_line import (
    LayoutGroup,
    TextLine,
    group_rows,
    has_mostly_right_to_left,
    join_pieces,
)
from app.ingestion.parsers.formats.pdf.unruled_tables import TableContext, find_tables
from app.ingestion.parsers.formats.pdf.vertical_text import iter_column_paragraphs, iter_tiers, split_ruby
from app.ingestion.parsers.toolkit.line_joining import join_lines

BINS = 128
MIN_COLUMN_SHARE = 0.15
"""Minimum share of the height of all lines in a column. A smaller share is a margin note or a page number."""

MIN_COLUMN_CHARACTERS = 14
"""Minimum mean line length of a column of prose. Shorter lines are a table or a table of contents, read row by row."""

_BULLET = re.compile(r"[•‣▪●○◦■□–\-*·]\s|\(?\d{1,3}[.)]\s|\(?[a-z][.)]\s")
_HYPHENATED = re.compile(r"\w+-\w+")
_SENTENCE_END = (".", "!", "?", ":", ";", "…", "。", "”", '"')


def find_hyphenated_words(lines: Iterable[TextLine]) -> frozenset[str]:
    """Return the words with a hyphen inside a line, in lowercase.

    If such a word is split at the end of another line, the hyphen is part of the word.
    """
    return frozenset(word.lower() for line in lines if "-" in line.text for word in _HYPHENATED.findall(line.text))


def group_page_lines(
    lines: Sequence[TextLine],
    hyphenated: Set[str] = frozenset(),
    heading_size: float = inf,
    previous: PageTable | None = None,
    ruled_tables: Sequence[PageTable] = (),
) -> Iterator[LayoutGroup]:
    """Group the lines of a page into paragraphs and tables.

    Args:
        lines: Printed lines, in any order.
        hyphenated: Result of ``find_hyphenated_words`` for the document.
        heading_size: Font size in points from which a line above a table is a heading, not a caption.
        previous: Table at the end of the page before, which may continue; None if there is none.
        ruled_tables: Ruled tables of the page; a line with a negative block number marks the place of each.

    Yields:
        The groups in reading order. Rotated text and ruby come last.
    """
    context = TableContext(heading_size, previous, ruled_tables)
    lines, ruby = split_ruby(lines)
    columns = [line for line in lines if line.has_vertical_glyphs]
    rotated = [line for line in lines if line.is_vertical and not line.has_vertical_glyphs]
    upright = [line for line in lines if not line.is_vertical] if columns or rotated else lines
    for tier in iter_tiers(columns):
        top = min(line.y0 for line in tier)
        above = [line for line in upright if line.y0 + line.y1 < 2 * top]
        upright = [line for line in upright if line.y0 + line.y1 >= 2 * top]
        yield from _iter_upright_groups(above, hyphenated, context)
        context = context._replace(previous=None)
        for paragraph in iter_column_paragraphs(tier):
            yield _build_paragraph(paragraph, hyphenated)
    yield from _iter_upright_groups(upright, hyphenated, context)
    for line in rotated:
        yield _build_paragraph([line], hyphenated)
    if ruby:
        yield _build_paragraph(ruby, hyphenated)


def _iter_upright_groups(
    lines: Sequence[TextLine], hyphenated: Set[str], context: TableContext
) -> Iterator[LayoutGroup]:
    is_reversed = has_mostly_right_to_left(lines)
    for region in _iter_regions(lines, is_reversed=is_reversed):
        yield from _iter_groups(group_rows(region), hyphenated, context)
        context = context._replace(previous=None)


def _iter_regions(
    lines: Sequence[TextLine], depth: int = 0, *, is_reversed: bool = False
) -> Iterator[Sequence[TextLine]]:
    """Yield the lines of each column region in reading order, by a variant of XY-cut (Nagy and Seth 1984).

    In this variant, lines may cross a vertical cut. Lines of full width divide the columns into bands. Vertical cuts
    come first, which keeps columns together if their lines are at the same heights. The right column comes first on
    pages whose text runs from right to left.
    """
    gutter = _find_gutter(lines) if depth < 6 else None
    if gutter is None:
        if lines:
            yield lines
        return
    left: list[TextLine] = []
    right: list[TextLine] = []
    across: list[TextLine] = []
    for line in sorted(lines, key=lambda item: item.y0):
        if line.x0 < gutter < line.x1:
            if left or right:
                yield from _iter_band(across, left, right, depth, is_reversed)
                across, left, right = [], [], []
            across.append(line)
        else:
            (left if line.x1 <= gutter else right).append(line)
    yield from _iter_band(across, left, right, depth, is_reversed)


def _iter_band(
    across: list[TextLine], left: list[TextLine], right: list[TextLine], depth: int, is_reversed: bool
) -> Iterator[Sequence[TextLine]]:
    if across:
        yield across
    for side in (right, left) if is_reversed else (left, right):
        yield from _iter_regions(side, depth + 1, is_reversed=is_reversed)


def _find_gutter(lines: Sequence[TextLine]) -> float | None:
    """Return the x coordinate with much text on both sides and little text across it; None for a single column."""
    if len(lines) < 4:
        return None
    x0, x1 = min([line.x0 for line in lines]), max([line.x1 for line in lines])  # lists are faster than generators
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
    best, best_index = 0.0, 0
    # For text in one column, this range is empty or short.
    first = max(1, bisect_left(before, MIN_COLUMN_SHARE * total))
    for index in range(first, BINS):
        side = min(before[index], after[index])
        crossing = max(0.0, total - before[index] - after[index])
        if side >= MIN_COLUMN_SHARE * total and crossing <= 0.5 * side and side - 2 * crossing > best:
            best, best_index = side - 2 * crossing, index
    gutter = x0 + best_index / scale
    return gutter if best_index and _are_columns(lines, gutter) else None


def _are_columns(lines: Sequence[TextLine], gutter: float) -> bool:
    if _are_fields(lines, gutter):
        return False
    for side in ([line for line in lines if line.x1 <= gutter], [line for line in lines if line.x0 >= gutter]):
        if len(side) < 2 or sum(len(line.text) for line in side) < MIN_COLUMN_CHARACTERS * len(side):
            return False
    return True


def _are_fields(lines: Sequence[TextLine], gutter: float) -> bool:
    """Return whether the left column has labels with colons, each at the height of a text in the right column."""
    labels = [line for line in lines if line.x1 <= gutter]
    names = [line for line in labels if line.text.rstrip().endswith(":")]
    if len(names) < 3 or 3 * len(names) < 2 * len(labels):
        return False
    tops = {round(line.y0 / 2) for line in lines if line.x0 >= gutter}
    return all(not tops.isdisjoint(range(round(line.y0 / 2) - 1, round(line.y0 / 2) + 2)) for line in names)


def _is_separated(row: list[TextLine]) -> bool:
    return all(right.x0 - left.x1 > left.size for left, right in pairwise(row))


def is_aligned(upper: list[TextLine], lower: list[TextLine]) -> bool:
    """Return whether two rows with the same number of cells are rows of one table.

    Args:
        upper: Cells of the upper row, from left to right.
        lower: Cells of the lower row.
    """
    if not _is_separated(lower) or lower[0].y0 - upper[0].y1 > 3 * upper[0].height:
        return False
    # Wide spaces also split lines of justified prose, but not at the same place in two lines.
    if any(
        row[i].x1 >= other[i + 1].x0 for row, other in ((upper, lower), (lower, upper)) for i in range(len(row) - 1)
    ):
        return False
    return all(_is_stacked(above, below) for above, below in zip(upper, lower, strict=True))


def _is_stacked(above: TextLine, below: TextLine) -> bool:
    tolerance = 0.5 * above.size
    return (
        abs(above.x0 - below.x0) < tolerance
        or abs(above.x1 - below.x1) < tolerance
        or abs(above.x0 + above.x1 - below.x0 - below.x1) < 2 * tolerance
    )


def _iter_groups(rows: list[list[TextLine]], hyphenated: Set[str], context: TableContext) -> Iterator[LayoutGroup]:
    if all(len(row) == 1 and row[0].block >= 0 for row in rows):
        yield from _iter_paragraphs([row[0] for row in rows], hyphenated)
        return
    index = 0
    for location in find_tables(rows, context):
        yield from _iter_paragraphs([join_pieces(row) for row in rows[index : location.start]], hyphenated)
        yield location.table.build_group()
        index = location.end
    yield from _iter_paragraphs([join_pieces(row) for row in rows[index:]], hyphenated)


def _iter_paragraphs(lines: list[TextLine], hyphenated: Set[str]) -> Iterator[LayoutGroup]:
    if not lines:
        return
    right = max(line.x1 for line in lines)
    paragraph = [lines[0]]
    for above, line in pairwise(lines):
        if _is_paragraph_break(above, line, right):
            yield _build_paragraph(paragraph, hyphenated)
            paragraph = []
        paragraph.append(line)
    yield _build_paragraph(paragraph, hyphenated)


def _build_paragraph(lines: Sequence[TextLine], hyphenated: Set[str]) -> LayoutGroup:
    text, ranges = join_lines((line.text for line in lines), hyphenated)
    return LayoutGroup(text, lines[0].size, lines=lines, ranges=ranges)


def _is_paragraph_break(above: TextLine, line: TextLine, right: float) -> bool:
    """Return whether a paragraph begins at ``line``. ``right`` is the right edge of the column in points."""
    size = max(above.size, 1.0)
    if abs(line.size - above.size) > 0.12 * size or line.y0 - above.y1 > 0.7 * above.height:
        return True
    if _BULLET.match(line.text):
        return True
    if line.is_bold != above.is_bold and (line if line.is_bold else above).x1 < right - 4 * size:
        return True  # a bold line that ends early is a heading
    is_short = above.x1 < right - 4 * size
    if is_short and line.block != above.block:
        return True
    is_indented = size < line.x0 - above.x0 < 6 * size
    return (is_short or is_indented) and above.text.rstrip().endswith(_SENTENCE_END)

"""Columns of vertical Chinese and Japanese text, and the small readings (ruby) that are printed next to words."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from app.ingestion.parsers.formats.pdf.text_line import TextLine

MIN_COLUMN_LINES = 2
MIN_VERTICAL_SHARE = 0.3
"""Minimum share of single characters on a page without vertical fonts, from which they are columns, not cells."""

MAX_COMPARISONS = 2_000_000
"""Maximum number of pairs of lines that are compared to find ruby. A page with more lines is no page of a book."""

MAX_RUBY_SHARE = 0.65
"""Maximum font size of ruby, as a share of the font size of its word."""

_CJK = re.compile("[\u2e80-\u9fff\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u30ff\u3105-\u312f\\s]+")
_UPRIGHT_DIGITS = re.compile(r"[A-Za-z0-9]{1,4}[!?%]?|[!?]{2}")
_PRESENTATION = str.maketrans(
    "︐︑︒︓︔︕︖︗︘︰︱︲︳︵︶︷︸︹︺︻︼︽︾︿﹀﹁﹂﹃﹄",
    "，、。：；！？〖〗：—–_（）｛｝〔〕【】《》〈〉「」『』",
)


def join_vertical_lines(lines: list[TextLine]) -> list[TextLine]:
    """Join the characters of vertical columns, which MuPDF returns as one line each.

    Args:
        lines: Lines of a page in the order of the file.

    Returns:
        The lines, with one line for each column of vertical text.
    """
    if not any(line.has_vertical_glyphs for line in lines) and not _has_columns(lines):
        return lines
    result: list[TextLine] = []
    column: list[TextLine] = []
    for line in lines:
        if column and _is_next_in_column(column[-1], line):
            column.append(line)
            continue
        result += _close_column(column)
        column = [line] if _can_be_in_column(line) else []
        if not column:
            result.append(line)
    return result + _close_column(column)


def _has_columns(lines: Sequence[TextLine]) -> bool:
    """Return whether most text of a page are single characters below each other."""
    if not lines or all(line.text.isascii() for line in lines):
        return False
    single = sum(
        _is_single(above) and _is_single(below) and _is_next_in_column(above, below) for above, below in pairwise(lines)
    )
    return single >= 3 and single >= MIN_VERTICAL_SHARE * sum(len(line.text) for line in lines)


def _is_single(line: TextLine) -> bool:
    text = line.text.strip()
    return len(text) == 1 and _CJK.match(text) is not None


def _can_be_in_column(line: TextLine) -> bool:
    text = line.text.strip()
    is_rotated = line.height > 1.5 * (line.x1 - line.x0) and len(text) > 1
    return line.has_vertical_glyphs or _is_single(line) or is_rotated or _UPRIGHT_DIGITS.fullmatch(text) is not None


def _is_next_in_column(above: TextLine, below: TextLine) -> bool:
    if not _can_be_in_column(below) or not _can_be_in_column(above):
        return False
    size = max(above.size, below.size)
    is_same_size = min(above.size, below.size) > 0.75 * size
    distance = abs(above.x0 + above.x1 - below.x0 - below.x1) / 2
    return is_same_size and distance <= 0.4 * size and -0.5 * size <= below.y0 - above.y1 <= 1.2 * size


def _close_column(column: Sequence[TextLine]) -> list[TextLine]:
    """Return one line for the characters of a column; the characters themselves if it is no column."""
    is_column = any(line.has_vertical_glyphs for line in column) or sum(map(_is_single, column)) >= MIN_COLUMN_LINES
    if not is_column:
        return list(column)
    text = "".join(line.text if line.text.isascii() else line.text.strip() for line in column)
    first = max(column, key=lambda line: line.size)
    return [
        first._replace(
            x0=min(line.x0 for line in column),
            y0=min(line.y0 for line in column),
            x1=max(line.x1 for line in column),
            y1=max(line.y1 for line in column),
            text=text.translate(_PRESENTATION),
            has_vertical_glyphs=True,
        )
    ]


def split_ruby(lines: Sequence[TextLine]) -> tuple[list[TextLine], list[TextLine]]:
    """Return the lines of a page without ruby, and the ruby.

    Ruby is kana in a small font, directly above a line or directly to the right of a column.
    """
    small = [line for line in lines if not line.text.isascii() and _KANA.fullmatch(line.text)]
    if not small or len(small) * len(lines) > MAX_COMPARISONS:
        return list(lines), []
    ruby = {line for line in small if any(_is_ruby(line, base) for base in lines)}
    return [line for line in lines if line not in ruby], [line for line in lines if line in ruby]


def _is_ruby(line: TextLine, base: TextLine) -> bool:
    if line.size > MAX_RUBY_SHARE * base.size:
        return False
    reach = 0.7 * base.size
    if base.has_vertical_glyphs:
        is_near = base.x1 - reach <= line.x0 <= base.x1 + reach
        return is_near and base.y0 - base.size <= line.y0 and line.y1 <= base.y1 + base.size
    is_above = base.y0 - reach <= line.y1 <= base.y0 + reach and line.y0 < base.y0
    return is_above and line.x1 > base.x0 and line.x0 < base.x1


def iter_tiers(columns: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """Yield the columns of each tier of a page from top to bottom, each from right to left."""
    tiers: list[list[TextLine]] = []
    bottom = 0.0
    for column in sorted(columns, key=lambda line: line.y0):
        if tiers and column.y0 < bottom - 0.5 * min(column.height, bottom - tiers[-1][0].y0):
            tiers[-1].append(column)
        else:
            tiers.append([column])
            bottom = column.y1
        bottom = max(bottom, column.y1)
    for tier in tiers:
        tier.sort(key=lambda line: -(line.x0 + line.x1))
        yield tier


def iter_column_paragraphs(tier: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """Yield the columns of each paragraph of a tier.

    A paragraph begins at a larger font, at an indented column, or after a column that ends early.
    """
    top, bottom = min(line.y0 for line in tier), max(line.y1 for line in tier)
    paragraph = [tier[0]]
    for previous, column in pairwise(tier):
        size = max(previous.size, 1.0)
        is_new_size = abs(column.size - previous.size) > 0.12 * size
        is_indented = column.y0 > top + 0.5 * size and previous.y0 <= top + 0.5 * size
        is_short = previous.y1 < bottom - 2 * size
        if is_new_size or is_indented or is_short:
            yield paragraph
            paragraph = []
        paragraph.append(column)
    yield paragraph

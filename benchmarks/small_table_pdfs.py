"""PDF renderings of small tables: ruled, with horizontal rules, and without lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pymupdf

from benchmarks.small_table_grids import GridCell, GridRow, Ruling, SmallTable

_FITZ: Any = pymupdf  # a library without type annotations

FONT_SIZE = 9.0
LINE_HEIGHT = 11.0
LEFT = 54.0
TOP = 60.0
PADDING = 5.0
COLUMN_GAP = 14.0
PAGE_SIZE = (842.0, 595.0)

_NUMBER = re.compile(r"[-+(]?[$€£]?[-+(]?\d[\d.,'–:/-]*\)?\s?(?:%|€|EUR|°C|mm|mg|GB)?\)?%?|—")
_SIGNS = re.compile(r"([$€£]?)(.*?)(\)?%?)")
_PROSE = "The figures below come from the books of the company and were not audited."


@dataclass(frozen=True, slots=True)
class _Box:
    """Cell with the row and column where it begins, and its edges in points."""

    cell: GridCell
    row: int
    column: int
    x0: float
    y0: float
    x1: float
    y1: float


def render_pdf(table: SmallTable, *, rows_per_page: int | None = None, has_prose: bool = False) -> bytes:
    """Render a table as a PDF file.

    Args:
        table: The table. ``ruling`` and ``has_split_signs`` decide how it is drawn.
        rows_per_page: Maximum number of rows on a page; the rows have no spans. Later pages have no header. None for a
            single page.
        has_prose: Whether a sentence is printed above the caption and below the footnotes.

    Returns:
        The bytes of the file.
    """
    document = _FITZ.open()
    font = _FITZ.Font("helv")
    size = rows_per_page or len(table.rows)
    parts = [table.rows[start : start + size] for start in range(0, len(table.rows), size)]
    widths = _measure_columns(table, font)
    for number, rows in enumerate(parts):
        is_first, is_last = number == 0, number == len(parts) - 1
        above = [*([_PROSE, ""] if has_prose else []), *table.caption] if is_first else []
        below = [*table.footnotes, *(["", _PROSE] if has_prose else [])] if is_last else []
        header = table.header if is_first else ()
        part = replace(table, caption=above, header=header, rows=rows, footnotes=below)
        _draw_page(document.new_page(width=PAGE_SIZE[0], height=PAGE_SIZE[1]), part, widths, font)
    content: bytes = document.tobytes(deflate=True)
    document.close()
    return content


def _draw_page(page: Any, table: SmallTable, widths: Sequence[float], font: Any) -> None:
    writer = _FITZ.TextWriter(page.rect)
    y = _draw_lines(writer, table.caption, TOP, font)
    boxes = list(_iter_boxes([*table.header, *table.rows], widths, y))
    for box in boxes:
        _draw_cell(writer, box, table, font)
    bottom = max((box.y1 for box in boxes), default=y)
    _draw_lines(writer, table.footnotes, bottom + PADDING, font)
    writer.write_text(page)
    shape = page.new_shape()
    if table.ruling is Ruling.ALL:
        for box in boxes:
            shape.draw_rect(_FITZ.Rect(box.x0, box.y0, box.x1, box.y1))
    elif table.ruling is Ruling.HORIZONTAL:
        for height in {y, *(box.y1 for box in boxes if box.row >= len(table.header) - 1)}:
            shape.draw_line((LEFT, height), (LEFT + sum(widths), height))
    if table.ruling is not Ruling.NONE and boxes:
        shape.finish(color=(0, 0, 0), width=0.6)
    shape.commit()


def _draw_lines(writer: Any, lines: Iterable[str], y: float, font: Any) -> float:
    """Write lines of prose from ``y`` downwards, and return the height below them."""
    for line in lines:
        if line:
            writer.append((LEFT, y + FONT_SIZE), line, font=font, fontsize=FONT_SIZE)
        y += LINE_HEIGHT
    return y + 3


def _measure_columns(table: SmallTable, font: Any) -> list[float]:
    rows = [*table.header, *table.rows]
    widths = [0.0] * len(rows[0])
    for span in range(1, len(widths) + 1):  # wider cells come later, when the columns below them have their widths
        for row in rows:
            for column, cell in enumerate(row):
                if cell is not None and cell.columns == span:
                    needed = max(font.text_length(line, FONT_SIZE) for line in cell.text.split("\n"))
                    missing = needed + 2 * PADDING + COLUMN_GAP - sum(widths[column : column + span])
                    for index in range(column, column + span):
                        widths[index] += max(0.0, missing) / span
    return widths


def _iter_boxes(rows: Sequence[GridRow], widths: Sequence[float], top: float) -> Iterator[_Box]:
    edges = [LEFT]
    for width in widths:
        edges.append(edges[-1] + width)
    heights = [top]
    for row in rows:
        lines = max((cell.text.count("\n") + 1 for cell in row if cell is not None and cell.rows == 1), default=1)
        heights.append(heights[-1] + lines * LINE_HEIGHT + PADDING)
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell is not None:
                x1, y1 = edges[column + cell.columns], heights[number + cell.rows]
                yield _Box(cell, number, column, edges[column], heights[number], x1, y1)


def _draw_cell(writer: Any, box: _Box, table: SmallTable, font: Any) -> None:
    lines = box.cell.text.split("\n")
    is_header = box.row < len(table.header)
    y = box.y0 + 2
    if is_header and table.ruling is not Ruling.ALL:  # heads of several lines end at the line below the header
        y = box.y1 - PADDING + 2 - LINE_HEIGHT * len(lines)
    elif table.ruling is Ruling.NONE and box.column and _has_long_label(table, box.row - len(table.header)):
        y = box.y1 - PADDING + 2 - LINE_HEIGHT
    for line in lines:
        _draw_cell_line(writer, box, table, line, y + FONT_SIZE, font)
        y += LINE_HEIGHT


def _has_long_label(table: SmallTable, row: int) -> bool:
    """Return whether only the first cell of a row has several lines. Its numbers are then next to the last line."""
    return all("\n" not in cell.text for cell in table.rows[row][1:] if cell is not None)


def _draw_cell_line(writer: Any, box: _Box, table: SmallTable, line: str, base: float, font: Any) -> None:
    width = font.text_length(line, FONT_SIZE)
    left, right = box.x0 + PADDING, box.x1 - PADDING
    if not line:
        return
    if box.column and box.cell.columns > 1:
        x = (left + right - width) / 2
    elif box.column and _has_numbers(table, box.column):
        if table.has_split_signs and _NUMBER.fullmatch(line):
            _draw_signs(writer, line, left + COLUMN_GAP / 2, right, base, font)
            return
        x = right - width
    else:
        x = left
    writer.append((x, base), line, font=font, fontsize=FONT_SIZE)


def _draw_signs(writer: Any, line: str, left: float, right: float, base: float, font: Any) -> None:
    """Write a number whose sign is at the left edge of its column and whose bracket or ``%`` is behind the edge."""
    match = _SIGNS.fullmatch(line)
    sign, number, end = match.groups() if match else ("", line, "")
    x = right - font.text_length(number, FONT_SIZE)
    if sign:
        writer.append((min(left, x - 6), base), sign, font=font, fontsize=FONT_SIZE)
    writer.append((x, base), number, font=font, fontsize=FONT_SIZE)
    if end:
        writer.append((right + 2, base), end, font=font, fontsize=FONT_SIZE)


def _has_numbers(table: SmallTable, column: int) -> bool:
    """Return whether most cells of a column are numbers, so that the column is aligned at its right edge."""
    texts = [cell.text for row in table.rows if (cell := row[column]) is not None and cell.text]
    return 2 * sum(_NUMBER.fullmatch(text) is not None for text in texts) > len(texts)

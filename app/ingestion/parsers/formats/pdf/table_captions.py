"""Rows above a table: header cells over several columns, titles, units and sentences that introduce the table."""

from collections.abc import Sequence

from app.ingestion.parsers.formats.pdf.table_lines import MAX_CAPTION_LINES, is_caption, is_intro, is_period, is_unit
from app.ingestion.parsers.formats.pdf.table_rows import PrintedRow

MAX_SPANNER_CHARACTERS = 60
MAX_SENTENCE_LINES = 3


def find_spanner_start(
    rows: Sequence[PrintedRow], start: int, floor: int, value_left: float, label_right: float
) -> int:
    """Return the index of the first row above a table that is a single cell above its columns of numbers.

    Args:
        rows: Rows of the region.
        start: Index of the first row of the table.
        floor: Index of the first row that may belong to the table.
        value_left: Left edge of the columns of numbers in points.
        label_right: Right edge of the column of labels.

    Returns:
        The index; ``start`` if there is no such row.
    """
    index = start
    while index > floor:
        row, below = rows[index - 1], rows[index].line
        cell = row.cells[0]
        is_near = below.y0 - row.line.y1 < 1.2 * max(row.line.height, below.height)
        is_right = (
            cell.x0 > value_left - row.line.size
            or (is_period(cell.text) and cell.x0 + cell.x1 > 2 * value_left)
            or _is_stacked(row, rows[index], label_right)
        )
        if not row.is_single or not is_near or not is_right or len(cell.text) > MAX_SPANNER_CHARACTERS:
            break
        index -= 1
    return index


def _is_stacked(row: PrintedRow, below: PrintedRow, label_right: float) -> bool:
    """Return whether a row is the upper line of a header cell in the row below it, behind the labels."""
    cell = row.cells[0]
    is_near = below.line.y0 - row.line.y1 < 0.2 * row.line.height
    others = [cell for cell in below.cells if cell.x1 > label_right]
    return is_near and any(
        abs(cell.x0 + cell.x1 - x0 - x1) < max(x1 - x0, 20) and cell.x1 - cell.x0 < 1.5 * (x1 - x0) + 20
        for x0, x1, _ in others
    )


def find_caption_start(rows: Sequence[PrintedRow], start: int, floor: int, heading_size: float) -> int:
    """Return the index of the first caption line above a table: a title, a unit, or a sentence with a colon.

    Args:
        rows: Rows of the region.
        start: Index of the first row of the table.
        floor: Index of the first row that may belong to the table.
        heading_size: Font size in points from which a line is a heading, not a caption.

    Returns:
        The index; ``start`` if the table has no caption.
    """
    index = start
    while index > max(floor, start - MAX_CAPTION_LINES):
        row, below = rows[index - 1], rows[index].line
        gap = (below.y0 - row.line.y1) / max(row.line.height, below.height)
        text = row.line.text.strip()
        if not row.is_single or gap > (2.0 if index == start else 1.2) or not is_caption(text):
            break
        if is_intro(text):
            return _find_sentence_start(rows, index - 1, floor) if index == start else index
        if row.line.size >= heading_size and not is_unit(text):
            break
        index -= 1
    return index


def _find_sentence_start(rows: Sequence[PrintedRow], last: int, floor: int) -> int:
    """Return the index of the first line of the paragraph that ends at ``last``; behind it if it is long."""
    index = last
    while index > floor:
        row, below = rows[index - 1], rows[index].line
        gap = below.y0 - row.line.y1
        if not row.is_single or gap > 0.5 * below.height or abs(row.line.size - below.size) > 0.5:
            break
        if row.line.text.rstrip().endswith((".", ":")) and index <= last - 1:
            break
        index -= 1
        if last - index >= MAX_SENTENCE_LINES:
            return last
    return index

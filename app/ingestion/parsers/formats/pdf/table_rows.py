"""Printed rows of a page, and the rows of a table that they form."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.table_cells import Cell, is_value, is_year, read_cells
from app.ingestion.parsers.formats.pdf.table_columns import Columns
from app.ingestion.parsers.formats.pdf.table_lines import is_leader
from app.ingestion.parsers.formats.pdf.table_text import TableRow
from app.ingestion.parsers.formats.pdf.text_line import TextLine, join_pieces
from app.ingestion.parsers.toolkit.text_cleanup import clean_line

MAX_PIECES = 150
"""Maximum number of pieces in a row of a table. A row with more pieces is read as one cell."""


class PrintedRow(NamedTuple):
    """Row of pieces at the same height.

    Attributes:
        cells: Cells, from left to right.
        line: Box and text of the row.
        has_values: Whether a cell behind the first cell is a number, or all cells are numbers.
    """

    cells: Sequence[Cell]
    line: TextLine
    has_values: bool

    @property
    def is_single(self) -> bool:
        return len(self.cells) == 1

    def is_head(self) -> bool:
        """Return whether the numbers of the row are years, so that the row may name columns."""
        values = [cell.text for cell in self.cells[1:] if is_value(cell.text)]
        first = self.cells[0].text
        return all(map(is_year, values)) and (not is_value(first) or is_year(first))


def read_row(row: Sequence[TextLine]) -> PrintedRow:
    """Read the cells of a row. A row is one cell if the spaces in it are narrow, or if it has dotted leaders.

    Args:
        row: Pieces of the row, from left to right.

    Returns:
        The row with its cells.
    """
    if len(row) == 1 and row[0].text.isprintable():  # faster than the general case
        line = row[0]
        return PrintedRow((Cell(line.x0, line.x1, line.text.strip()),), line, False)
    line = join_pieces(row)
    cells = read_cells(row) if 1 < len(row) <= MAX_PIECES else []
    if len(cells) < 2:
        text = line.text.strip()
        is_visible = text.isprintable() or bool(clean_line(text))
        return PrintedRow(cells or (Cell(line.x0, line.x1 if is_visible else line.x0, text),), line, False)
    gaps = [cells[index + 1].x0 - cells[index].x1 for index in range(len(cells) - 1)]
    values = [is_value(cell.text) for cell in cells]
    is_separated = all(gap > 0.8 * line.size or (values[i] and values[i + 1] and gap > 0) for i, gap in enumerate(gaps))
    if not is_separated or any(is_leader(cell.text) for cell in cells):
        return PrintedRow((Cell(line.x0, line.x1, line.text.strip()),), line, False)
    return PrintedRow(cells, line, any(values[1:]))


def is_field(cells: Sequence[Cell]) -> bool:
    """Return whether a row is a label with a colon and its text, such as in a term sheet. A form has no text."""
    return len(cells) == 2 and cells[0].text.endswith(":") and not cells[1].text.endswith((":", "_"))


def read_body(printed: Sequence[PrintedRow], columns: Columns) -> list[TableRow]:
    """Assign the cells of printed rows to columns. Rows that continue a wrapped cell are joined.

    Args:
        printed: Printed rows below the header, from top to bottom.
        columns: Columns of the table.

    Returns:
        The rows of the table.
    """
    rows: list[TableRow] = []
    for group in _group_wrapped_rows(printed):
        cells = [""] * len(columns)
        for index in group:
            for cell in printed[index].cells:
                column = columns.find_nearest(cell)
                cells[column] = f"{cells[column]} {cell.text}" if cells[column] else cell.text
        rows.append(TableRow(cells, join_pieces([printed[index].line for index in group])))
    return rows


def _group_wrapped_rows(printed: Sequence[PrintedRow]) -> Iterator[list[int]]:
    """Yield the indexes of the printed rows of each row of the table. A wrapped cell has several printed rows."""
    limit = _measure_wrap_gap(printed)
    first = printed[0].cells
    text_left = first[1].x0 if is_field(first) and not printed[0].has_values else float("inf")
    group = [0]
    for index in range(1, len(printed)):
        above, row = printed[index - 1], printed[index]
        gap = row.line.y0 - above.line.y1
        if gap < limit or _is_wrapped(above, row) or row.cells[0].x0 > text_left - 2:
            group.append(index)
        else:
            yield group
            group = [index]
    yield group


def _measure_wrap_gap(printed: Sequence[PrintedRow]) -> float:
    """Return the distance below which two printed rows are one row of the table.

    The distance between the lines of a cell is clearly smaller than the distance between two rows with numbers. If no
    rows with numbers follow each other, the distances must be of two clearly different kinds.
    """
    size = printed[0].line.size
    pairs = list(pairwise(printed))
    gaps = [below.line.y0 - above.line.y1 for above, below in pairs]
    between = [gap for gap, (above, below) in zip(gaps, pairs, strict=True) if above.has_values and below.has_values]
    if between:
        return min(between) - 0.3 * size
    if not gaps or min(gaps) > 0.15 * size or max(gaps) - min(gaps) < 0.3 * size:
        return float("-inf")
    return (min(gaps) + max(gaps)) / 2


def _is_wrapped(above: PrintedRow, row: PrintedRow) -> bool:
    """Return whether the first cell of a row continues a label above it."""
    if above.line.y1 + 0.9 * above.line.height < row.line.y0 or is_value(row.cells[0].text):
        return False
    if row.is_single and above.is_single:
        return row.cells[0].text[:1].islower()
    if not (row.is_single or above.is_single):
        return False
    return row.cells[0].text[:1].islower() and not above.cells[0].text.endswith((":", "."))

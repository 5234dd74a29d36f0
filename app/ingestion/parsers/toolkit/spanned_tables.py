"""Tables whose rows list only the cells that begin in them, as HTML, RTF and OpenDocument have them, as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.ingestion.parsers.toolkit.table_grid import TableGrid
from app.ingestion.parsers.toolkit.tables import MAX_CELLS
from app.ingestion.parsers.toolkit.text_cleanup import clean_line

MAX_COLUMNS = 1000
"""Maximum number of columns; a hostile file may declare any number. Cells beyond are left out."""


@dataclass(frozen=True, slots=True)
class SpannedCell:
    """Cell of a table.

    Attributes:
        text: Text of the cell.
        columns: Number of columns that the cell covers.
        rows: Number of rows that the cell covers.
    """

    text: str
    columns: int = 1
    rows: int = 1


def format_spanned_table(
    rows: Sequence[Sequence[SpannedCell]], *, header_count: int | None = None, head_lines: Sequence[str] = ()
) -> str:
    """Format rows of cells as a Markdown table, as ``TableGrid`` does. No cell moves to another column.

    Args:
        rows: Rows of cells from top to bottom, without the cells that a span covers.
        header_count: Number of header rows that the file declares; None if it declares none.
        head_lines: Lines above the table, such as its caption.

    Returns:
        The lines above and the table; empty if no cell has text.

    Raises:
        TextTooLong: The table has more than a million cells.
    """
    grid = TableGrid(MAX_CELLS)
    covered: dict[int, int] = {}  # the number of further rows that a cell covers, by column
    for row in rows:
        grid.start_row()
        column = 0
        for cell in row:
            column = _repeat_covered(grid, covered, column)
            span = min(max(1, cell.columns), MAX_COLUMNS - column)
            if span < 1:
                break
            grid.add_cell(cell.text, span)
            if cell.rows > 1:
                covered.update(dict.fromkeys(range(column, column + span), cell.rows - 1))
            column += span
        _repeat_covered(grid, covered, column, end=max(covered, default=-1) + 1)
    text = grid.format_table(header_count)
    lines = [line for line in map(clean_line, head_lines) if line]
    return "\n".join([*lines, text]) if text else ""


def _repeat_covered(grid: TableGrid, covered: dict[int, int], column: int, *, end: int = 0) -> int:
    """Repeat the cells above that cover the next columns, up to column ``end`` at least; return the next column."""
    while column in covered or column < end:
        rows = covered.pop(column, 0)
        if rows:
            grid.repeat_cell_above(1)
        else:
            grid.skip_columns(1)
        if rows > 1:
            covered[column] = rows - 1
        column += 1
    return column

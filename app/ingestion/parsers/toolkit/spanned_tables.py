"""Tables with cells that span columns and rows, as Markdown: no cell moves to another column."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.ingestion.parsers.toolkit.tables import MAX_CELLS, format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import TextTooLong

MAX_COLUMNS = 1000
"""Maximum number of columns; a hostile file may declare any number. Cells beyond are left out."""


MAX_CHARACTERS = 20_000_000
"""Maximum number of characters of a table after its cells are repeated."""


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
    rows: Sequence[Sequence[SpannedCell]], *, header_rows: int = 1, head_lines: Sequence[str] = ()
) -> str:
    """Format rows of cells as a Markdown table with one header row.

    A cell of several rows is repeated in each row. A cell of several columns is repeated in the header; in other rows
    it is in its first column. Several header rows are joined to one, column by column.

    Args:
        rows: Rows of cells from top to bottom, without the cells that a span covers.
        header_rows: Number of header rows.
        head_lines: Lines above the table, such as its caption.

    Returns:
        The text as ``format_markdown_table`` returns it, after the lines above; empty if no cell has text.

    Raises:
        TextTooLong: The table has more than a million cells.
    """
    grid = _expand_spans(rows, header_rows)
    count = min(max(1, header_rows), len(grid))
    header = _join_rows(grid[:count]) if count > 1 else grid[0] if grid else []
    text = format_markdown_table([header, *grid[count:]])
    lines = [line for line in map(clean_line, head_lines) if line]
    return "\n".join([*lines, text]) if text else ""


def _expand_spans(rows: Sequence[Sequence[SpannedCell]], header_rows: int) -> list[list[str]]:
    grid: list[list[str]] = []
    covered: dict[int, tuple[int, str]] = {}  # the number of further rows that a cell covers, and its text, by column
    cell_count = character_count = 0
    for number, row in enumerate(rows):
        texts: list[str] = []
        for cell in row:
            _take_covered(texts, covered)
            columns = min(max(1, cell.columns), MAX_COLUMNS - len(texts))
            for offset in range(columns):
                text = cell.text if offset == 0 or number < header_rows else ""
                if cell.rows > 1:
                    covered[len(texts)] = (cell.rows - 1, text)
                texts.append(text)
        _take_covered(texts, covered, end=max(covered, default=-1) + 1)
        grid.append(texts)
        cell_count += len(texts)
        character_count += sum(map(len, texts))
        if character_count > MAX_CHARACTERS:
            raise TextTooLong(f"A table has more than {MAX_CHARACTERS:,} characters; split it.", limit=MAX_CHARACTERS)
        if cell_count > MAX_CELLS:
            raise TextTooLong(f"A table in the file has more than {MAX_CELLS:,} cells; split it.", limit=MAX_CELLS)
    return grid


def _take_covered(texts: list[str], covered: dict[int, tuple[int, str]], *, end: int = 0) -> None:
    """Append the texts of the cells above that cover the next columns, and pad the row to ``end`` columns."""
    while len(texts) in covered or len(texts) < end:
        rows, text = covered.pop(len(texts), (1, ""))
        if rows > 1:
            covered[len(texts)] = (rows - 1, text)
        texts.append(text)


def _join_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    width = max(map(len, rows))
    columns = ([clean_line(row[column]) for row in rows if column < len(row)] for column in range(width))
    return [" ".join(dict.fromkeys(text for text in column if text)) for column in columns]

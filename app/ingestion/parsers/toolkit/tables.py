"""Formatting of rows of cells as a Markdown table, for all formats."""

from collections.abc import Sequence

from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import TextTooLong

MAX_CELLS = 1_000_000


def format_markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as a Markdown table.

    Short rows are padded, rows without text are left out, and ``|`` is escaped.

    Args:
        rows: Rows of cells; the first row is the header.

    Returns:
        The table. If there is only one column or one row, its cells as lines. If no cell has text, an empty string.

    Raises:
        TextTooLong: The padded table has more than a million cells.
    """
    cleaned = [[clean_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    cleaned = [row for row in cleaned if any(row)]
    if not cleaned:
        return ""
    width = max(len(row) for row in cleaned)
    if width * len(cleaned) > MAX_CELLS:
        raise TextTooLong(f"A table in the file has more than {MAX_CELLS:,} cells; split it.", limit=MAX_CELLS)
    if width == 1 or len(cleaned) == 1:
        return "\n".join(cell.replace("\\|", "|") for row in cleaned for cell in row if cell)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in cleaned]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def format_headed_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: Sequence[str] = ()) -> str:
    """Format a table whose head is known. A table of data alone gets an empty head, because no row names its columns.

    Args:
        head: Names of the columns; empty if the table only has data.
        rows: Rows of cells. Rows without text are left out, and short rows are padded.
        caption: Lines above the table.

    Returns:
        The caption and the table. If there is only one column or one row, its cells as lines. If no cell has text, only
        the caption.

    Raises:
        TextTooLong: The padded table has more than a million cells.
    """
    cleaned = [[clean_line(cell) for cell in row] for row in rows]
    cleaned = [row for row in cleaned if any(row)]
    names = [clean_line(name) for name in head]
    width = max((len(row) for row in [names, *cleaned]), default=0)
    if width * len(cleaned) > MAX_CELLS:
        raise TextTooLong(f"A table in the file has more than {MAX_CELLS:,} cells; split it.", limit=MAX_CELLS)
    lines = [line for line in map(clean_line, caption) if line]
    is_list = width < 2 or not cleaned or (len(cleaned) == 1 and not any(names))
    if is_list:
        lines += [cell for row in [names, *cleaned] for cell in row if cell]
        return "\n".join(lines)
    lines.append(_format_row(names, width))
    lines.append("|" + " --- |" * width)
    lines += [_format_row(row, width) for row in cleaned]
    return "\n".join(lines)


def _format_row(row: Sequence[str], width: int) -> str:
    cells = [cell.replace("|", "\\|") for cell in row]
    return "| " + " | ".join(cells + [""] * (width - len(row))) + " |"

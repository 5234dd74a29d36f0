"""Rows of cells → a Markdown table, the one way in which every format writes tables."""

from collections.abc import Sequence

from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import TextTooLong

MAX_CELLS = 1_000_000


def format_markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A pipe table whose first row is the header; short rows are filled up, rows without text left out, ``|`` escaped.

    A table of one column or one row is no table: its cells come back as lines. Empty where no cell has text. Raises
    TextTooLong where filling up would make far more cells than there are: a long row beside very many short ones.
    """
    cleaned = [[clean_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    cleaned = [row for row in cleaned if any(row)]
    if not cleaned:
        return ""
    width = max(len(row) for row in cleaned)
    if width * len(cleaned) > MAX_CELLS:
        raise TextTooLong("A table in the file has more cells than the limit allows.", limit=MAX_CELLS)
    if width == 1 or len(cleaned) == 1:
        return "\n".join(cell.replace("\\|", "|") for row in cleaned for cell in row if cell)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in cleaned]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)

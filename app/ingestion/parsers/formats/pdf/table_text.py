"""Text of a table of a PDF page: caption lines, header row, rows and footnotes, with the range of each printed line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.pdf.table_columns import Columns
from app.ingestion.parsers.formats.pdf.text_line import LayoutGroup, TextLine
from app.ingestion.parsers.toolkit.text_cleanup import clean_line

_MAX_LINES_BELOW = 2
_MAX_LINE_CHARACTERS = 120


@dataclass(slots=True)
class TableRow:
    """Row of a table, with a cell for each column.

    Attributes:
        cells: Texts of the cells.
        line: Box of the printed lines of the row; None if the row is not printed on this page.
    """

    cells: list[str]
    line: TextLine | None = None


@dataclass(slots=True)
class PageTable:
    """Table of one page.

    Attributes:
        columns: Places of the columns; empty for a ruled table.
        caption: Printed lines above the table.
        head: Header row; None if the page has none.
        rows: Rows below the header.
        notes: Printed lines below the table.
        carried: Table of an earlier page that this table continues; its caption and header row are repeated.
        size: Font size of the rows in points.
        is_ruled: Whether the cells come from ruling lines.
        box: Edges of a ruled table in points: left, top, right and bottom.
    """

    columns: Columns = field(default_factory=Columns)
    caption: list[TextLine] = field(default_factory=list)
    head: TableRow | None = None
    rows: list[TableRow] = field(default_factory=list)
    notes: list[TextLine] = field(default_factory=list)
    carried: "PageTable | None" = None
    size: float = 0.0
    is_ruled: bool = False
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def build_group(self) -> LayoutGroup:
        """Build the group of the table, with its text in Markdown and the ranges of the printed lines in the text.

        Returns:
            The group. Rows without visible text are left out.
        """
        width = max((len(row.cells) for row in self.rows), default=0)
        caption: Sequence[tuple[str, TextLine | None]] = [(line.text, line) for line in self.caption]
        head = self.head
        if self.carried is not None:
            caption = [*((text, None) for text in self.carried.list_caption()), *caption]
            head = head or TableRow(self.carried.list_head())
        cells = [[_clean_cell(cell) for cell in row.cells] for row in self.rows]
        entries = [(clean_line(text), line) for text, line in caption]
        head_cells = [_clean_cell(cell) for cell in head.cells] if head else []
        entries.append((_format_row(head_cells, width), head.line if head else None))
        entries.append(("|" + " --- |" * width, None))
        rows = [(row, line) for row, line in zip(cells, (row.line for row in self.rows), strict=True) if any(row)]
        entries += [(_format_row(row, width), line) for row, line in rows]
        entries += [(clean_line(line.text), line) for line in self.notes]
        text, lines, ranges = _join_entries(entries)
        return LayoutGroup(text, self.size, tuple(tuple(row) for row in [head_cells, *cells]), lines, ranges, self)

    def list_caption(self) -> list[str]:
        """Return the lines above the header, with those that are repeated from an earlier page."""
        own = [line.text for line in self.caption]
        return [*self.carried.list_caption(), *own] if self.carried is not None else own

    def list_head(self) -> list[str]:
        """Return the cells of the header row, with those that are repeated from an earlier page."""
        if self.head is None:
            return self.carried.list_head() if self.carried is not None else []
        return self.head.cells


def _clean_cell(text: str) -> str:
    if text.isascii() and text.isprintable() and "  " not in text and "|" not in text:  # faster than cleaning
        return text.strip()
    return clean_line(text).replace("|", "\\|")


def _format_row(cells: Sequence[str], width: int) -> str:
    return "| " + " | ".join([*cells, *[""] * (width - len(cells))]) + " |"


def _join_entries(
    entries: Sequence[tuple[str, TextLine | None]],
) -> tuple[str, list[TextLine], list[tuple[int, int]]]:
    texts, lines, ranges = list[str](), list[TextLine](), list[tuple[int, int]]()
    start = 0
    for text, line in entries:
        if not text:
            continue
        texts.append(text)
        if line is not None:
            lines.append(line)
            ranges.append((start, start + len(text)))
        start += len(text) + 1
    return "\n".join(texts), lines, ranges


def find_last_table(groups: Sequence[LayoutGroup]) -> PageTable | None:
    """Return the table at the end of a page, which may continue on the next page.

    Args:
        groups: Groups of the page, in reading order.

    Returns:
        The table; None if the page does not end with a table and at most a few short lines, such as a page number.
    """
    for group in groups[-_MAX_LINES_BELOW - 1 :][::-1]:
        if group.table is not None:
            return group.table
        if len(group.text) > _MAX_LINE_CHARACTERS:
            return None
    return None

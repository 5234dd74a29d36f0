"""Recognition of tables without ruling lines: rows whose cells are in the same columns, with their head and notes."""

from collections.abc import Sequence
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.table_cells import Cell, is_value, is_year
from app.ingestion.parsers.formats.pdf.table_columns import Columns
from app.ingestion.parsers.formats.pdf.table_heads import build_head
from app.ingestion.parsers.formats.pdf.table_lines import (
    MAX_CAPTION_LINES,
    find_notes_end,
    is_address,
    is_caption,
    is_continued,
    is_form_entry,
    is_intro,
    is_period,
    is_unit,
)
from app.ingestion.parsers.formats.pdf.table_rows import PrintedRow, read_body, read_row
from app.ingestion.parsers.formats.pdf.table_text import PageTable, TableRow
from app.ingestion.parsers.formats.pdf.text_line import TextLine, join_pieces

MIN_TEXT_ROWS = 3
"""Minimum number of rows of a table without numbers."""

MAX_LABEL_CHARACTERS = 110
MAX_LABEL_ROWS = 4
"""Maximum number of rows with a label only between two rows with several cells."""

MAX_SPANNER_CHARACTERS = 60
MAX_SENTENCE_LINES = 3

MAX_ROW_GAP = 3.0
"""Maximum distance of two rows of a table, in heights of a row."""


class TableLocation(NamedTuple):
    """Table in a sequence of rows, with the indexes of its first row and of the row behind its last row."""

    start: int
    end: int
    table: PageTable


class TableContext(NamedTuple):
    """Facts about the page and the document of a region.

    Attributes:
        heading_size: Font size in points from which a line is a heading, not a caption.
        previous: Table at the end of the page before, which may continue; None if there is none.
        ruled_tables: Ruled tables of the page; a line with a negative block number marks the place of each.
    """

    heading_size: float
    previous: PageTable | None
    ruled_tables: Sequence[PageTable]


def find_tables(rows: Sequence[Sequence[TextLine]], context: TableContext) -> list[TableLocation]:
    """Find the tables in the rows of a region of a page.

    Args:
        rows: Rows of pieces, from top to bottom.
        context: Facts about the page.

    Returns:
        The tables, from top to bottom.
    """
    if not any(len(row) > 1 or row[0].block < 0 for row in rows):
        return []
    return _TableFinder([read_row(row) for row in rows], context).find_tables()


class _TableFinder:
    """Finder of the tables in the rows of one region."""

    def __init__(self, rows: Sequence[PrintedRow], context: TableContext) -> None:
        self._rows = list(rows)
        self._heading_size = context.heading_size
        self._previous = context.previous
        self._ruled_tables = context.ruled_tables
        self._floor = 0

    def find_tables(self) -> list[TableLocation]:
        locations: list[TableLocation] = []
        index = 0
        while index < len(self._rows):
            row = self._rows[index]
            if row.line.block < 0:
                table: TableLocation | None = self._locate_ruled_table(index)
            elif row.is_single:
                table = None
            else:
                table = self._build_table(index, self._find_run_end(index))
            if table is None:
                index += 1
                continue
            locations.append(table)
            self._previous = table.table
            index = self._floor = table.end
        return locations

    def _locate_ruled_table(self, index: int) -> TableLocation:
        """Add the caption and the footnotes of a ruled table, and the header of a table that it continues."""
        mark = self._rows[index].line
        table = self._ruled_tables[-1 - mark.block]
        self._rows[index] = PrintedRow(
            self._rows[index].cells, TextLine(*table.box, table.size, mark.text, mark.block), False
        )
        start = self._find_caption_start(index)
        previous = self._previous
        if previous is not None and start == index and index - self._floor <= MAX_LABEL_ROWS:
            is_same = table.columns.is_similar(previous.columns, 3.0) and previous.is_ruled
            if is_same and table.head is not None and table.head.cells != previous.list_head() and not table.caption:
                table.rows.insert(0, table.head)
                table.head = None
            if is_same and table.head is None:
                table.carried = previous
        table.caption[:0] = [row.line for row in self._rows[start:index]]
        return self._locate(table, start, index + 1)

    def _locate(self, table: PageTable, start: int, end: int) -> TableLocation:
        """Add the footnotes to a table, and return its place."""
        notes_end = find_notes_end([row.line for row in self._rows], end)
        table.notes = [row.line for row in self._rows[end:notes_end]]
        return TableLocation(start, notes_end, table)

    def _find_run_end(self, start: int) -> int:
        """Return the index behind the last row that may be in the same table as the row at ``start``."""
        end, index = start + 1, start + 1
        last = self._rows[start]
        labels = 0
        while index < len(self._rows):
            row, above = self._rows[index], self._rows[index - 1].line
            if row.line.block < 0:
                break
            if row.line.y0 - above.y1 > MAX_ROW_GAP * max(above.height, row.line.height):
                break
            if not row.is_single:
                last, labels, end = row, 0, index + 1
            elif row.cells[0].x0 >= last.cells[1].x0 - row.line.size and is_value(row.cells[0].text):
                labels, end = 0, index + 1
            else:
                labels += 1
                if labels > MAX_LABEL_ROWS or not self._is_label(row, last):
                    break
            index += 1
        return end

    @staticmethod
    def _is_label(row: PrintedRow, last: PrintedRow) -> bool:
        """Return whether a row with one cell may be inside of a table, below a row with several cells."""
        cell = row.cells[0]
        value_left = last.cells[1].x0
        if is_unit(cell.text):
            return True
        if cell.x0 >= value_left - row.line.size:
            return True
        return len(cell.text) <= MAX_LABEL_CHARACTERS and cell.x1 <= value_left + row.line.size

    def _build_table(self, start: int, end: int) -> TableLocation | None:
        body = next((index for index in range(start, end) if self._is_body(index)), None)
        if body is None:
            return self._build_text_table(start, end)
        columns, end, matches = self._find_columns(body, end)
        value_rows = sum(self._rows[index].has_values for index in matches)
        if value_rows < 2 and not self._is_supported(start, body, columns):
            return None
        if self._is_contents(list(matches)):
            return None
        columns.merge_alternatives(list(matches.values()), self._rows[body].line.size)
        return self._finish_table(start, body, end, columns)

    def _is_body(self, index: int) -> bool:
        row = self._rows[index]
        return row.has_values and not row.is_head()

    def _is_supported(self, start: int, body: int, columns: Columns) -> bool:
        """Return whether a single row with numbers is a table: a header above it, or a table that it continues."""
        if self._is_continuation(start, columns):
            return True
        heads = (self._rows[index] for index in range(start, body))
        return any(
            len(row.cells) >= 2 and None is not columns.match(row.cells) and self._is_filled(row, columns)
            for row in heads
        )

    @staticmethod
    def _is_filled(row: PrintedRow, columns: Columns) -> bool:
        return len(row.cells) >= len(columns) - 1 >= 1 and -1 not in (columns.match(row.cells) or [-1])

    def _is_continuation(self, start: int, columns: Columns) -> bool:
        """Return whether the rows from ``start`` continue the table before them."""
        if self._previous is None or start - self._floor > MAX_LABEL_ROWS:
            return False
        return columns.is_similar(self._previous.columns, self._rows[start].line.size)

    def _find_columns(self, body: int, end: int) -> tuple[Columns, int, dict[int, list[int]]]:
        """Return the columns of the rows from ``body``, the end of the table, and the column of each cell by row."""
        columns = Columns()
        matches: dict[int, list[int]] = {}
        for index in range(body, end):
            row = self._rows[index]
            if row.is_single:
                continue
            match = columns.match(row.cells)
            is_body = self._is_body(index)
            if match is None or (len(matches) > 1 and not is_body and self._is_new_head(index, columns)):
                end = self._strip_labels(body, index)
                break
            if is_body:
                columns.add(row.cells, match)
                if -1 in match:
                    match = columns.match(row.cells) or match
                    matches = {key: columns.match(self._rows[key].cells) or value for key, value in matches.items()}
            matches[index] = match
        return columns, self._strip_labels(body, end), matches

    def _strip_labels(self, body: int, end: int) -> int:
        while end - 1 > body and self._rows[end - 1].is_single and not is_value(self._rows[end - 1].cells[0].text):
            end -= 1
        return end

    def _is_new_head(self, index: int, columns: Columns) -> bool:
        """Return whether a row without numbers, below rows with numbers, is the header of another table."""
        row = self._rows[index]
        first = columns.find_overlapping(row.cells[0])
        others = row.cells[1:] if first[:1] == [0] else row.cells
        if len(others) < 2 or any(is_value(cell.text) and not is_year(cell.text) for cell in others):
            return False
        return all(is_year(cell.text) or is_period(cell.text) for cell in others) or self._rows[index - 1].is_single

    def _is_contents(self, indexes: Sequence[int]) -> bool:
        """Return whether rows are a table of contents: page numbers that never decrease, below each other."""
        rows = [self._rows[index].cells for index in indexes]
        if len(rows) < 5 or any(sum(is_value(cell.text) for cell in cells[1:]) != 1 for cells in rows):
            return False
        numbers = [int(cells[-1].text) for cells in rows if cells[-1].text.isdecimal()]
        return len(numbers) == len(rows) and numbers == sorted(numbers) and numbers[-1] < 2000

    def _build_text_table(self, start: int, end: int) -> TableLocation | None:
        columns = Columns()
        matches: list[int] = []
        for index in range(start, end):
            row = self._rows[index]
            if row.is_single:
                continue
            match = columns.match(row.cells)
            if match is None:
                end = index
                break
            columns.add(row.cells, match)
            matches.append(index)
        end = self._strip_labels(start, end)
        if len(matches) < MIN_TEXT_ROWS or not self._is_text_table(matches, columns):
            return None
        return self._finish_table(start, start + 1, end, columns)

    def _is_text_table(self, indexes: Sequence[int], columns: Columns) -> bool:
        cells = [cell for index in indexes for cell in self._rows[index].cells]
        if sum(len(cell.text) for cell in cells) > 40 * len(cells):
            return False
        if any(is_address(cell.text) for cell in cells) or 2 * sum(is_form_entry(cell.text) for cell in cells) > len(
            cells
        ):
            return False
        size = self._rows[indexes[0]].line.size
        aligned = sum(self._is_aligned(cell, columns, size) for cell in cells)
        return 10 * aligned >= 8 * len(cells)

    @staticmethod
    def _is_aligned(cell: Cell, columns: Columns, size: float) -> bool:
        left, right = columns.edges[columns.find_nearest(cell)]
        offset = min(abs(cell.x0 - left), abs(cell.x1 - right), abs(cell.x0 + cell.x1 - left - right) / 2)
        return offset < 0.5 * size

    def _finish_table(self, start: int, body: int, end: int, columns: Columns) -> TableLocation:
        table = PageTable(columns, size=self._rows[body].line.size)
        caption_start = self._read_head(table, start, body)
        table.rows += read_body(self._rows[body:end], columns)
        if table.head is None and not any(is_unit(line.text) for line in table.caption):
            self._repeat_head(table, caption_start)
        return self._locate(table, caption_start, end)

    def _repeat_head(self, table: PageTable, caption_start: int) -> None:
        previous = self._previous
        if previous is None or caption_start > self._floor or not previous.list_head():
            return
        if not table.columns.is_similar(previous.columns, table.size):
            return
        table.carried = previous
        labels = [line for line in table.caption if not is_continued(line.text)]
        repeated = set(previous.list_caption())
        table.caption = []
        table.rows[:0] = [TableRow([line.text], line) for line in labels if line.text not in repeated]

    def _read_head(self, table: PageTable, start: int, body: int) -> int:
        """Read the header rows and the caption of a table, and return the index of its first row."""
        edges = table.columns.edges
        value_left = edges[1][0] if len(edges) > 1 else edges[0][0]
        heads: list[PrintedRow] = []
        units: list[TextLine] = []
        last_head = max((index for index in range(start, body) if not self._rows[index].is_single), default=start - 1)
        for index in range(start, body):
            row = self._rows[index]
            if row.is_single and is_unit(row.line.text):
                units.append(row.line)
            elif index > last_head and row.cells[0].x0 < value_left:
                table.rows.append(TableRow([row.cells[0].text], row.line))
            else:
                heads.append(row)
        index = self._find_spanner_start(start, value_left)
        heads[:0] = [row for row in self._rows[index:start] if not is_unit(row.line.text)]
        units[:0] = [row.line for row in self._rows[index:start] if is_unit(row.line.text)]
        start = self._find_caption_start(index)
        table.caption = [row.line for row in self._rows[start:index]] + units
        if heads:
            table.head = TableRow(
                build_head(table.columns, [row.cells for row in heads]), join_pieces([row.line for row in heads])
            )
        return start

    def _find_spanner_start(self, start: int, value_left: float) -> int:
        """Return the index of the first row above ``start`` that is a single cell above the columns of numbers."""
        index = start
        while index > self._floor:
            row, below = self._rows[index - 1], self._rows[index].line
            cell = row.cells[0]
            is_near = below.y0 - row.line.y1 < 1.2 * max(row.line.height, below.height)
            is_right = cell.x0 > value_left - row.line.size or (
                is_period(cell.text) and cell.x0 + cell.x1 > 2 * value_left
            )
            if not row.is_single or not is_near or not is_right or len(cell.text) > MAX_SPANNER_CHARACTERS:
                break
            index -= 1
        return index

    @staticmethod
    def _is_stacked(row: PrintedRow, below: PrintedRow) -> bool:
        """Return whether a row is the upper line of a header cell in the row below it, behind the first cell."""
        cell = row.cells[0]
        is_near = below.line.y0 - row.line.y1 < 0.4 * row.line.height
        others = below.cells[1:]
        return is_near and any(abs(cell.x0 + cell.x1 - x0 - x1) < max(x1 - x0, 20) for x0, x1, _ in others)

    def _find_caption_start(self, start: int) -> int:
        """Return the index of the first caption line above ``start``: a title, a unit, or a sentence with a colon."""
        index = start
        while index > max(self._floor, start - MAX_CAPTION_LINES):
            row, below = self._rows[index - 1], self._rows[index].line
            gap = (below.y0 - row.line.y1) / max(row.line.height, below.height)
            text = row.line.text.strip()
            if not row.is_single or gap > (2.0 if index == start else 1.2) or not is_caption(text):
                break
            if is_intro(text):
                return self._find_sentence_start(index - 1) if index == start else index
            if row.line.size >= self._heading_size and not is_unit(text):
                break
            index -= 1
        return index

    def _find_sentence_start(self, last: int) -> int:
        """Return the index of the first line of the paragraph that ends at ``last``; behind it if it is long."""
        index = last
        while index > self._floor:
            row, below = self._rows[index - 1], self._rows[index].line
            gap = below.y0 - row.line.y1
            if not row.is_single or gap > 0.5 * below.height or abs(row.line.size - below.size) > 0.5:
                break
            if row.line.text.rstrip().endswith((".", ":")) and index <= last - 1:
                break
            index -= 1
            if last - index >= MAX_SENTENCE_LINES:
                return last
        return index

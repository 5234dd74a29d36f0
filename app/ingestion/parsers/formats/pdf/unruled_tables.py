"""Recognition of tables without ruling lines: rows whose cells are in the same columns, with their head and notes."""

from collections.abc import Sequence
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.table_captions import find_caption_start, find_spanner_start
from app.ingestion.parsers.formats.pdf.table_cells import Cell, is_value, is_year
from app.ingestion.parsers.formats.pdf.table_columns import Columns
from app.ingestion.parsers.formats.pdf.table_heads import build_head
from app.ingestion.parsers.formats.pdf.table_lines import (
    MAX_NOTE_LINES,
    find_notes_end,
    is_address,
    is_continued,
    is_form_entry,
    is_period,
    is_unit,
)
from app.ingestion.parsers.formats.pdf.table_rows import PrintedRow, is_field, read_body, read_row
from app.ingestion.parsers.formats.pdf.table_text import PageTable, TableRow
from app.ingestion.parsers.formats.pdf.text_line import TextLine, join_pieces

MIN_TEXT_ROWS = 3
"""Minimum number of rows of a table without numbers."""

MAX_COLUMNS = 60
MAX_LABEL_CHARACTERS = 110
MAX_LABEL_ROWS = 4
"""Maximum number of rows with a label only between two rows with several cells."""

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
        self._rejected_end = 0
        self._run_end = 0
        self._body = -1

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
                if index >= self._run_end:
                    self._run_end = self._find_run_end(index)
                table = self._build_table(index, self._run_end)
            if table is None:
                index = max(index + 1, self._rejected_end)
                continue
            if locations and self._is_part(locations[-1], table):
                upper = locations.pop()
                upper.table.rows += table.table.rows
                upper.table.notes = table.table.notes
                table = TableLocation(upper.start, table.end, upper.table)
            locations.append(table)
            self._previous = table.table
            index = self._floor = table.end
        return locations

    @staticmethod
    def _is_part(upper: TableLocation, lower: TableLocation) -> bool:
        """Return whether a table is a part of the table directly above it, after a wide gap."""
        is_next = lower.start == upper.end and not upper.table.notes and not lower.table.caption
        return is_next and lower.table.head is None and lower.table.carried is upper.table

    def _locate_ruled_table(self, index: int) -> TableLocation:
        """Add the caption and the footnotes of a ruled table, and the header of a table that it continues."""
        mark = self._rows[index].line
        table = self._ruled_tables[-1 - mark.block]
        self._rows[index] = PrintedRow(
            self._rows[index].cells, TextLine(*table.box, table.size, mark.text, mark.block), False
        )
        start = find_caption_start(self._rows, index, self._floor, self._heading_size)
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
        limit = end
        last_limit = min(len(self._rows), end + MAX_NOTE_LINES + 1)
        while limit < last_limit and self._rows[limit].is_single and self._rows[limit].line.block >= 0:
            limit += 1
        notes_end = end - 1 + find_notes_end([row.line for row in self._rows[end - 1 : limit]], 1)
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
            elif self._is_open_end(row, last, above):
                labels, end = 0, index + 1
            else:
                labels += 1
                if labels > MAX_LABEL_ROWS or not self._is_label(row, last):
                    break
            index += 1
        return end

    @staticmethod
    def _is_open_end(row: PrintedRow, last: PrintedRow, above: TextLine) -> bool:
        """Return whether a row with one cell ends a table: a total without a label, or the last line of a cell."""
        cell = row.cells[0]
        is_near = row.line.y0 - above.y1 < 0.2 * row.line.height
        if cell.x1 <= cell.x0:  # the row has no visible text
            return True
        if cell.x0 >= last.cells[1].x0 - row.line.size:
            return is_value(cell.text) or (
                is_near and any(abs(cell.x0 - other.x0) < 0.5 * row.line.size for other in last.cells[1:])
            )
        return is_near and cell.text[:1].islower() and abs(cell.x0 - last.cells[0].x0) < 2 * row.line.size

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
        if self._body < start:
            self._body = next((index for index in range(start, end) if self._is_body(index)), end)
        body = self._body
        if body >= end:
            return self._build_text_table(start, end)
        columns, end, matches = self._find_columns(body, end)
        value_rows = sum(self._rows[index].has_values for index in matches)
        if len(columns) > MAX_COLUMNS or (value_rows < 2 and not self._is_supported(start, body, columns)):
            self._rejected_end = body + 1 if len(columns) <= MAX_COLUMNS else end
            return None
        if self._is_contents(list(matches)):
            self._rejected_end = end
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
            match = columns.match(row.cells) if len(columns) <= MAX_COLUMNS else None
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
        """Return the end of a table without the labels that another table or a paragraph may follow."""
        last = next(index for index in range(end - 1, body - 1, -1) if not self._rows[index].is_single)
        index = last + 1
        while index < end and self._is_open_end(self._rows[index], self._rows[last], self._rows[index - 1].line):
            index += 1
        return index

    def _is_new_head(self, index: int, columns: Columns) -> bool:
        """Return whether a row without numbers, below rows with numbers, is the header of another table."""
        row = self._rows[index]
        first = columns.find_overlapping(row.cells[0])
        others = row.cells[1:] if first[:1] == [0] else row.cells
        above = self._rows[index - 1]
        is_near = row.line.y0 - above.line.y1 < 0.3 * row.line.height
        if (is_near and first[:1] != [0] and not above.is_single) or len(others) < 2:
            return False  # a line of a wrapped cell, or too few cells
        if any(is_value(cell.text) and not is_year(cell.text) for cell in others):
            return False
        if above.is_single:
            return True
        label = row.cells[0].text if first[:1] == [0] else ""
        is_head_label = not label or is_period(label) or is_unit(label)
        return is_head_label and all(is_year(cell.text) or is_period(cell.text) for cell in others)

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
            match = columns.match(row.cells) if len(columns) <= MAX_COLUMNS else None
            if match is None:
                end = index
                break
            columns.add(row.cells, match)
            matches.append(index)
        end = self._strip_labels(start, end)
        if len(matches) < MIN_TEXT_ROWS:
            return None
        is_labelled = len(columns) == 2 and all(is_field(self._rows[index].cells) for index in matches)
        if not is_labelled and (len(columns) > MAX_COLUMNS or not self._is_text_table(matches, columns)):
            self._rejected_end = end
            return None
        return self._finish_table(start, start if is_labelled else start + 1, end, columns)

    def _is_text_table(self, indexes: Sequence[int], columns: Columns) -> bool:
        cells = [cell for index in indexes for cell in self._rows[index].cells]
        if sum(len(cell.text) for cell in cells) > 40 * len(cells):
            return False
        form_entries = sum(is_form_entry(cell.text) for cell in cells)
        if 2 * form_entries > len(cells) or any(is_address(cell.text) for cell in cells):
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
        caption_start, body = self._read_head(table, start, body)
        table.rows = read_body([row for row in self._rows[body:end] if row.line not in table.caption], columns)
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

    def _read_head(self, table: PageTable, start: int, body: int) -> tuple[int, int]:
        """Read the header and the caption of a table. Return the indexes of its first row and of its first label."""
        edges = table.columns.edges
        value_left = edges[1][0] if len(edges) > 1 else edges[0][0]
        heads: list[PrintedRow] = []
        units: list[TextLine] = []
        labels: list[int] = []
        last_head = max((index for index in range(start, body) if not self._rows[index].is_single), default=start - 1)
        for index in range(start, body):
            row = self._rows[index]
            if row.is_single and is_unit(row.line.text):
                units.append(row.line)
            elif index > last_head and row.cells[0].x0 < edges[0][1]:
                labels.append(index)
            else:
                heads.append(row)
        index = find_spanner_start(self._rows, start, self._floor, value_left, edges[0][1])
        heads[:0] = [row for row in self._rows[index:start] if not is_unit(row.line.text)]
        units[:0] = [row.line for row in self._rows[index:start] if is_unit(row.line.text)]
        start = find_caption_start(self._rows, index, self._floor, self._heading_size)
        table.caption = [row.line for row in self._rows[start:index]] + units
        if heads:
            table.head = TableRow(
                build_head(table.columns, [row.cells for row in heads]), join_pieces([row.line for row in heads])
            )
        return start, labels[0] if labels else body

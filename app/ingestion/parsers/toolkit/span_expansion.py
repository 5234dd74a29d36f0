"""Expansion of the cells of a table that span columns and rows, for HTML and reStructuredText."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_COLUMN_SPAN = 1000
MAX_REPEATED_CELLS = 100_000
"""Maximum number of cells that spans add to one table. Beyond it, the spans of the table are ignored."""

MAX_REPEATED_CHARACTERS = 200
"""Maximum length of a text that is repeated in the columns and rows of its span. A longer text is written once."""


@dataclass(slots=True)
class MarkupCell:
    """Cell of a table as the file has it.

    Attributes:
        text: Text of the cell.
        column_span: Number of columns.
        row_span: Number of rows.
        is_head: Whether the cell is the head of a column or a row.
        is_bold: Whether all its text is bold.
    """

    text: str
    column_span: int = 1
    row_span: int = 1
    is_head: bool = False
    is_bold: bool = False


@dataclass(slots=True)
class ExpandedRow:
    """Row of the expanded table. All its lists have an entry for each column.

    Attributes:
        cells: Texts, with the texts of spans repeated.
        sources: Cells that the texts come from; None for a column without a cell.
        is_repeat: Whether the text repeats the column to the left or the row above.
    """

    cells: list[str]
    sources: list[MarkupCell | None]
    is_repeat: list[bool] = field(default_factory=list)

    @property
    def is_full_width(self) -> bool:
        """Whether one cell spans all the columns."""
        first = self.sources[0] if self.sources else None
        return len(self.sources) > 1 and first is not None and all(source is first for source in self.sources)


@dataclass(slots=True)
class _Interval:
    start: int
    end: int
    cell: MarkupCell
    rows: int
    is_first_row: bool = True


def expand_spans(rows: Sequence[Sequence[MarkupCell]]) -> list[ExpandedRow]:
    """Assign the cells of a table to columns. Columns in which no cell begins are left out.

    The time is linear in the number of cells and of repeated cells, which is limited.

    Args:
        rows: Cells of each row. Row spans beyond the last row are cut.
    """
    placed = _assign_columns(rows, uses_spans=True)
    starts = _list_starts(placed)
    if placed is None or len(starts) * len(rows) > MAX_REPEATED_CELLS + sum(len(row) for row in rows):
        placed = _assign_columns(rows, uses_spans=False)
        starts = _list_starts(placed)
    budget = [MAX_REPEATED_CELLS * 20]
    return [_fill_row(intervals, starts, budget) for intervals in placed or []]


def _list_starts(placed: list[list[_Interval]] | None) -> list[int]:
    return sorted({interval.start for row in placed or [] for interval in row})


def _assign_columns(rows: Sequence[Sequence[MarkupCell]], *, uses_spans: bool) -> list[list[_Interval]] | None:
    """Return the columns of each row's cells; None if row spans would add too many cells."""
    placed: list[list[_Interval]] = []
    pending: list[_Interval] = []
    repeated = 0
    for row in rows:
        intervals = list(pending)
        repeated += len(pending)
        if repeated > MAX_REPEATED_CELLS:
            return None
        index = column = 0
        for cell in row:
            while index < len(pending) and pending[index].start <= column:
                column = max(column, pending[index].end)
                index += 1
            width = max(1, min(cell.column_span, MAX_COLUMN_SPAN)) if uses_spans else 1
            limit = pending[index].start if index < len(pending) else column + width
            end = min(column + width, limit)
            intervals.append(_Interval(column, end, cell, cell.row_span if uses_spans else 1))
            column = end
        intervals.sort(key=lambda interval: interval.start)
        placed.append(intervals)
        pending = [
            _Interval(each.start, each.end, each.cell, each.rows - 1, is_first_row=False)
            for each in intervals
            if each.rows > 1
        ]
    return placed


def _fill_row(intervals: Sequence[_Interval], starts: Sequence[int], budget: list[int]) -> ExpandedRow:
    row = ExpandedRow([""] * len(starts), [None] * len(starts), [False] * len(starts))
    for interval in intervals:
        index = bisect_left(starts, interval.start)
        while index < len(starts) and starts[index] < interval.end:
            is_first = interval.is_first_row and starts[index] == interval.start
            text = interval.cell.text
            if not is_first:
                budget[0] -= len(text)
                text = text if len(text) <= MAX_REPEATED_CHARACTERS and budget[0] > 0 else ""
            row.cells[index] = text
            row.sources[index] = interval.cell
            row.is_repeat[index] = not is_first
            index += 1
    return row

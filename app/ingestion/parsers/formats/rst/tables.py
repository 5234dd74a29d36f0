"""Tables of reStructuredText: grid tables, simple tables, list tables and tables of comma-separated values."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.ingestion.parsers.toolkit.span_expansion import MarkupCell

GRID_BORDER = re.compile(r"\+(?:[-=]{2,}+\+)++")
SIMPLE_BORDER = re.compile(r"={2,}+(?: ++={2,}+)++")
_RULE = re.compile(r"-{2,}+(?: ++-{2,}+)*+")
_COLUMN = re.compile(r"=+")
_SEGMENT = re.compile(r"-+")


@dataclass(slots=True)
class RstRows:
    """Rows of a table: those of its head, and all others."""

    head: list[list[MarkupCell]] = field(default_factory=list)
    body: list[list[MarkupCell]] = field(default_factory=list)

    @classmethod
    def from_texts(cls, rows: Sequence[Sequence[str]], head_count: int) -> "RstRows":
        """Return rows of cells without spans.

        Args:
            rows: Texts of the cells.
            head_count: Number of rows of the head.
        """
        cells = [[MarkupCell(text) for text in row] for row in rows]
        return cls(cells[:head_count], cells[head_count:])


def parse_grid_rows(lines: Sequence[str]) -> RstRows:
    """Return the cells of a grid table.

    Args:
        lines: Lines of the table, without indentation.

    Returns:
        The rows of cells with their spans; no rows if the lines are no complete grid.
    """
    width = len(lines[0])
    borders = [index for index, line in enumerate(lines) if line.startswith("+") or "+-" in line or "+=" in line]
    if any(len(line) != width for line in lines) or len(borders) < 2 or borders[-1] != len(lines) - 1:
        return RstRows()
    edges = sorted({0, width - 1} | {at for index in borders for at, sign in enumerate(lines[index]) if sign == "+"})
    grid = _Grid(lines, borders, edges)
    return grid.list_rows()


class _Grid:
    """Places of a grid table. Places without a line between them are one cell."""

    def __init__(self, lines: Sequence[str], borders: Sequence[int], edges: Sequence[int]) -> None:
        self._lines, self._borders, self._edges = lines, borders, edges
        self._columns, self._bands = len(edges) - 1, len(borders) - 1
        self._parents = list(range(self._columns * self._bands))

    def list_rows(self) -> RstRows:
        """Return the rows of cells, or no rows if a cell is no rectangle."""
        for band in range(self._bands):
            self._join_band(band)
        places: dict[int, list[int]] = {}
        for place in range(len(self._parents)):
            places.setdefault(self._find(place), []).append(place)
        rows: list[list[MarkupCell]] = [[] for _ in range(self._bands)]
        for members in places.values():
            columns = {place % self._columns for place in members}
            bands = {place // self._columns for place in members}
            if len(columns) * len(bands) != len(members):
                return RstRows()
            text = self._read_text(min(columns), max(columns), min(bands), max(bands))
            rows[min(bands)].append(MarkupCell(text, len(columns), len(bands)))
        heads = [at for at in range(1, self._bands) if "+=" in self._lines[self._borders[at]]]
        head_count = heads[0] if heads else 0
        return RstRows(rows[:head_count], rows[head_count:])

    def _join_band(self, band: int) -> None:
        """Join the places of a band that no line separates from each other, or from the band above."""
        inner = self._lines[self._borders[band] + 1 : self._borders[band + 1]]
        above = self._lines[self._borders[band]]
        for column, (left, right) in enumerate(pairwise(self._edges)):
            place = band * self._columns + column
            if column and not any(line[left] in "|+" for line in inner):
                self._join(place - 1, place)
            if band and above[left + 1 : right].strip("-=+"):
                self._join(place - self._columns, place)

    def _find(self, place: int) -> int:
        while self._parents[place] != place:
            self._parents[place] = self._parents[self._parents[place]]
            place = self._parents[place]
        return place

    def _join(self, first: int, second: int) -> None:
        low, high = sorted((self._find(first), self._find(second)))
        self._parents[high] = low

    def _read_text(self, first: int, last: int, top: int, bottom: int) -> str:
        left, right = self._edges[first] + 1, self._edges[last + 1]
        lines = self._lines[self._borders[top] + 1 : self._borders[bottom + 1]]
        return join_cell_lines([line[left:right].strip() for line in lines])


def join_cell_lines(lines: Sequence[str]) -> str:
    """Join the lines of a cell by spaces, and the items of a list in it by semicolons."""
    text = ""
    for line in lines:
        is_item = line.startswith(("- ", "* "))
        core = line[2:].strip() if is_item else line.removeprefix("| ")
        text += f"; {core}" if text and is_item else f" {core}"
        text = text.strip()
    return text


def parse_simple_rows(lines: Sequence[str]) -> RstRows:
    """Return the cells of a simple table.

    Args:
        lines: Lines of the table, without indentation. The first line marks the columns.

    Returns:
        The rows of cells. A line whose first cell is empty continues the previous row. A line of dashes marks the spans
        of the row above it.
    """
    starts = [column.start() for column in _COLUMN.finditer(lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[MarkupCell]] = []
    first_line = ""
    head_count = 0
    for index, line in enumerate(lines[1:], 1):
        if SIMPLE_BORDER.fullmatch(line):
            if index < len(lines) - 1 and not head_count:
                head_count = len(rows)
        elif _RULE.fullmatch(line) and rows:
            rows[-1] = _read_spans(line, starts, first_line, rows[-1])
        elif line:
            cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            if cells[0] == "\\":
                # An escaped space begins a row whose first cell is empty.
                rows.append([MarkupCell(cell) for cell in ("", *cells[1:])])
            elif rows and not cells[0]:
                for above, cell in zip(rows[-1], cells, strict=False):
                    above.text = join_cell_lines([above.text, cell]) if cell else above.text
            else:
                rows.append([MarkupCell(cell) for cell in cells])
                first_line = line
    return RstRows(rows[:head_count], rows[head_count:])


def _read_spans(rule: str, starts: Sequence[int], line: str, row: list[MarkupCell]) -> list[MarkupCell]:
    """Return the cells of a row whose spans a line of dashes marks."""
    segments = [(segment.start(), segment.end()) for segment in _SEGMENT.finditer(rule)]
    begins = [start for start, _ in segments]
    spans = [sum(start <= column < end for column in starts) for start, end in segments]
    if sum(spans) != len(starts) or not all(spans):
        return row
    texts = [line[start:end].strip() for start, end in zip(begins, [*begins[1:], None], strict=True)]
    return [MarkupCell(text, span) for text, span in zip(texts, spans, strict=True)]


def parse_list_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of a ``list-table``: a list of rows (``* -``), each of which is a list of cells (``-``).

    Args:
        lines: Lines of the list.

    Returns:
        The rows of cells. The items of a list inside of a cell are joined by semicolons.
    """
    rows: list[list[list[str]]] = []
    column = 0
    for line in lines:
        text = line.strip()
        indentation = len(line) - len(line.lstrip())
        if text.startswith("* -") and (not rows or indentation < column):
            column = indentation + text.index("-")
            rows.append([[text[3:].strip()]])
        elif rows and indentation == column and (text == "-" or text.startswith("- ")):
            rows[-1].append([text[1:].strip()])
        elif text and rows:
            rows[-1][-1].append(text)
    return [[join_cell_lines(cell) for cell in row] for row in rows]


def parse_csv_rows(lines: Sequence[str], header: str) -> list[list[str]]:
    """Return the cells of a ``csv-table``.

    Args:
        lines: Lines with comma-separated values.
        header: Line with the names of the columns; empty if there is none.

    Returns:
        The rows of cells; no rows if the values are not valid.
    """
    rows = [[header]] if header else []
    try:
        named = list(csv.reader([header], skipinitialspace=True)) if header else []
        rows = [*named, *csv.reader([line.strip() for line in lines], skipinitialspace=True)]
    except csv.Error:
        return []
    return [row for row in rows if row]

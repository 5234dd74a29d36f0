"""Tables with spans as Markdown: spans are expanded, and several header rows become one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import TextTooLong

MAX_REPEATED_CHARACTERS = 200
"""Maximum length of a cell that is repeated over its span. A longer cell is a text, and appears once."""

MAX_HEADER_ROWS = 4
CELL_CHARACTERS = 2
"""Characters that each cell of a Markdown table takes at least. They count towards the limit of the document."""


@dataclass(frozen=True, slots=True)
class SpanCell:
    """Cell of an expanded table.

    Attributes:
        text: Text of the cell.
        source: Number of the cell in the file, equal in all columns and rows of its span; 0 for an empty place.
        is_bold: Whether all of its text is bold.
    """

    text: str
    source: int
    is_bold: bool = False


EMPTY_CELL = SpanCell("", 0)


class TableGrid:
    """Grid of a table that is filled row by row.

    Args:
        max_cells: Maximum number of cells, including the cells of short rows that are filled up.
    """

    def __init__(self, max_cells: int) -> None:
        self.rows: list[list[SpanCell]] = []
        self._max_cells = max_cells
        self._characters = 0
        self._width = 0
        self._sources = 0

    def start_row(self) -> None:
        """Begin a row. Raises TextTooLong if the table has too many cells."""
        self.rows.append([])
        self._check_size()

    def skip_columns(self, count: int) -> None:
        """Leave places empty in the current row."""
        self._append_cells([EMPTY_CELL] * count)

    def add_cell(self, text: str, span: int, *, is_bold: bool = False) -> None:
        """Add a cell to the current row.

        Args:
            text: Text of the cell.
            span: Number of columns, from 1.
            is_bold: Whether all of its text is bold.

        Raises:
            TextTooLong: The table has too many cells.
        """
        self._sources += 1
        self._append_cells([SpanCell(clean_line(text), self._sources, is_bold)] * span)

    def repeat_cell_above(self, span: int) -> None:
        """Add the part of a cell of the row above. Raises TextTooLong if the table has too many cells."""
        column, above = len(self.rows[-1]), self.rows[-2] if len(self.rows) > 1 else []
        part = above[column : column + span]
        self._append_cells([*part, *[EMPTY_CELL] * (span - len(part))])

    def format_table(self, header_count: int | None = None) -> str:
        """Format the table.

        Args:
            header_count: Number of header rows that the file declares; None if it declares none.

        Returns:
            A title line for each leading row that is one cell, one header row, and the other rows as Markdown. The
            text of a span is repeated in each of its columns and rows. Empty if no cell has text.
        """
        rows = [[*row, *[EMPTY_CELL] * (self._width - len(row))] for row in self.rows]
        rows = _merge_equal_columns([row for row in rows if any(cell.text for cell in row)])
        titles: list[str] = []
        while len(rows) > 2 and len(rows[0]) > 1 and _is_single_cell(rows[0]):
            titles.append(rows.pop(0)[0].text)
            header_count = None if header_count is None else max(1, header_count - 1)
        if not rows:
            return ""
        count = _count_header_rows(rows) if header_count is None else min(header_count, MAX_HEADER_ROWS, len(rows) - 1)
        head = _join_header_rows(rows[: max(count, 1)])
        table = format_markdown_table([head, *_list_body_texts(rows[max(count, 1) :])])
        return "\n".join([*titles, table]) if table else ""

    def _append_cells(self, cells: Sequence[SpanCell]) -> None:
        self.rows[-1].extend(cells)
        self._width = max(self._width, len(self.rows[-1]))
        self._characters += sum(len(cell.text) for cell in cells if len(cell.text) <= MAX_REPEATED_CHARACTERS)
        self._check_size()

    def _check_size(self) -> None:
        limit = self._max_cells * CELL_CHARACTERS
        if self._characters > limit:
            raise TextTooLong(f"A table has more than {limit} characters; split it.", limit=limit)
        if self._width * len(self.rows) > self._max_cells:
            raise TextTooLong(f"A table has more than {self._max_cells} cells; split it.", limit=self._max_cells)


def _merge_equal_columns(rows: Sequence[list[SpanCell]]) -> list[list[SpanCell]]:
    """Leave out each column that no cell begins in: a declared span may be wider than the table."""
    if not rows:
        return []
    columns = [
        index
        for index in range(len(rows[0]))
        if index == 0 or any(row[index].source not in (0, row[index - 1].source) for row in rows)
    ]
    return [[row[index] for index in columns] for row in rows]


def _is_single_cell(row: Sequence[SpanCell]) -> bool:
    return row[0].source != 0 and all(cell.source == row[0].source for cell in row)


def _count_header_rows(rows: Sequence[Sequence[SpanCell]]) -> int:
    """Return the number of header rows of a table that declares none.

    The first row is a header. A row is a header too if a cell above it spans several columns, and one condition holds.
    Both rows are bold, or the row has no number, and no text below the cells that span one column.
    """
    count = 1
    while count < min(MAX_HEADER_ROWS, len(rows) - 1) and _is_next_header(rows[count - 1], rows[count]):
        count += 1
    return count


def _is_next_header(above: Sequence[SpanCell], row: Sequence[SpanCell]) -> bool:
    if _is_single_cell(row) or not _has_column_span(above):
        return False
    own = [cell for cell, upper in zip(row, above, strict=True) if cell.source and cell.source != upper.source]
    texts = [cell.text for cell in own if cell.text]
    if len(texts) < 2:
        return False
    is_bold = all(cell.is_bold for cell in own if cell.text)
    if all(cell.is_bold for cell in above if cell.text):
        return is_bold
    if is_bold:
        return True
    widths = Counter(cell.source for cell in above)
    unspanned = [index for index, cell in enumerate(above) if widths[cell.source] == 1]
    has_own_text = any(row[index].text and row[index].source != above[index].source for index in unspanned)
    return bool(unspanned) and not has_own_text and not any(_is_number(text) for text in texts)


def _has_column_span(row: Sequence[SpanCell]) -> bool:
    return any(left.source and left.source == right.source for left, right in pairwise(row))


def _is_number(text: str) -> bool:
    core = text.strip("$€£¥%()+-−–± ").replace(",", "").replace(".", "").replace(" ", "")
    is_year = len(core) == 4 and core[:2] in ("19", "20")
    return core.isdigit() and not is_year


def _join_header_rows(rows: Sequence[Sequence[SpanCell]]) -> list[str]:
    """Join the texts of each column with spaces. A cell that spans several rows counts once."""
    if len(rows) == 1:
        return _list_body_texts(rows)[0]
    columns = zip(*rows, strict=True)
    return [" ".join(text for text in dict.fromkeys(cell.text for cell in column) if text) for column in columns]


def _list_body_texts(rows: Sequence[Sequence[SpanCell]]) -> list[list[str]]:
    """Return the texts of rows. A cell over the whole width, and a long text, appear only in their first place."""
    shown: set[int] = set()
    texts = []
    for row in rows:
        is_single = len(row) > 1 and _is_single_cell(row)
        line = []
        for cell in row:
            is_repeated = cell.source in shown
            is_once = is_single or len(cell.text) > MAX_REPEATED_CHARACTERS
            line.append("" if is_repeated and is_once else cell.text)
            shown.add(cell.source)
        texts.append(line)
    return texts

"""Tables whose cells are drawn with ruling lines: each cell of the grid is a cell, with all of its lines."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.pdf.rulings import RuledGrid, Rulings, find_grids
from app.ingestion.parsers.formats.pdf.table_cells import is_bullet, is_value, is_year, split_words
from app.ingestion.parsers.formats.pdf.table_columns import Columns
from app.ingestion.parsers.formats.pdf.table_text import PageTable, TableRow
from app.ingestion.parsers.formats.pdf.text_line import LayoutGroup, TextLine, group_rows, join_pieces
from app.ingestion.parsers.toolkit.line_joining import join_lines

MAX_CELL_CHARACTERS = 3000
MAX_CELLS = 20_000
MAX_HEADER_ROWS = 4
MAX_GRIDS = 50
MAX_SHORT_CELL_CHARACTERS = 30
MIN_ALIGNED_ROWS = 3
"""Minimum number of rows with pieces at the same place, outside of clear tables, on a page whose lines are read."""

MAX_SPAN_SHARE = 0.6
"""Maximum share of the grid that may be in cells over several columns. Forms have more."""

_TOLERANCE = 2.0


@dataclass(slots=True)
class _GridCell:
    """Cell of a grid that may cover several columns and rows."""

    row: int
    column: int
    rows: int
    columns: int
    pieces: list[TextLine] = field(default_factory=list)
    text: str = ""


def needs_rulings(lines: Sequence[TextLine], groups: Sequence[LayoutGroup]) -> bool:
    """Return whether a page may have a ruled table that the places of its cells do not show.

    Args:
        lines: Printed lines of the page.
        groups: Groups of the page without knowledge of its ruling lines.
    """
    bottoms = [round(line.y1) for line in lines]
    if len(bottoms) - len(set(bottoms)) < MIN_ALIGNED_ROWS:
        return False
    clear = [
        (min(line.y0 for line in group.lines), max(line.y1 for line in group.lines))
        for group in groups
        if group.table is not None and _is_clear(group.table)
    ]
    shared = {bottom for bottom, count in Counter(bottoms).items() if count > 1}
    shared = {bottom for bottom in shared if not any(top <= bottom <= end + 1 for top, end in clear)}
    if len(shared) < MIN_ALIGNED_ROWS:
        return False
    rows: dict[int, list[TextLine]] = {}
    for line, bottom in zip(lines, bottoms, strict=True):
        if bottom in shared:
            rows.setdefault(bottom, []).append(line)
    places = Counter[tuple[int, int]]()
    for row in rows.values():
        if _has_cells(row):
            leftmost = min(line.x0 for line in row)
            places.update({key for line in row if line.x0 > leftmost for key in _list_places(line)})
    return any(count >= MIN_ALIGNED_ROWS for count in places.values())


def _has_cells(row: Sequence[TextLine]) -> bool:
    """Return whether pieces at the same height may be cells: not a bullet or a page number with its text, no prose."""
    if len(row) == 2:
        left, right = sorted(row, key=lambda line: line.x0)
        if is_bullet(left.text.strip()) or right.text.strip().isdecimal():
            return False
    return min(len(line.text) for line in row) <= MAX_SHORT_CELL_CHARACTERS


def _list_places(line: TextLine) -> list[tuple[int, int]]:
    """Return the left edge, the right edge and the centre of a piece in points, each with its kind."""
    return [(0, round(line.x0)), (1, round(line.x1)), (2, round((line.x0 + line.x1) / 2))]


def _is_clear(table: PageTable) -> bool:
    """Return whether nearly all cells of a table are numbers, so that its rows and columns are certain."""
    cells = [cell for row in table.rows for cell in row.cells[1:] if cell]
    return len(cells) > 0 and 10 * sum(map(is_value, cells)) >= 9 * len(cells)


def replace_ruled_tables(
    lines: Sequence[TextLine], rulings: Rulings, hyphenated: Set[str]
) -> tuple[list[TextLine], list[PageTable]]:
    """Find the ruled tables of a page, and replace the lines of each by a line that marks its place.

    Args:
        lines: Printed lines of the page, in any order.
        rulings: Ruling lines of the page.
        hyphenated: Words that are spelled with a hyphen, in lowercase.

    Returns:
        The lines outside of the tables with a mark for each table, and the tables. The block number of a mark is
        ``-1`` for the first table, ``-2`` for the second.
    """
    remaining, tables = list(lines), list[PageTable]()
    grids = sorted(find_grids(rulings), key=lambda grid: (grid.xs[-1] - grid.xs[0]) * (grid.ys[-1] - grid.ys[0]))
    for grid in grids[:MAX_GRIDS]:  # a table inside of a frame comes before the frame
        inside = [line for line in remaining if _is_inside(line, grid)]
        table = _build_table(grid, inside, hyphenated)
        if table is None:
            continue
        tables.append(table)
        chosen = set(map(id, inside))
        remaining = [line for line in remaining if id(line) not in chosen]
        top = grid.ys[0]
        text = " ".join(line.text for line in inside[:40])
        remaining.append(TextLine(grid.xs[0], top, grid.xs[-1], top + table.size, table.size, text, -len(tables)))
    return remaining, tables


def _is_inside(line: TextLine, grid: RuledGrid) -> bool:
    x, y = (line.x0 + line.x1) / 2, (line.y0 + line.y1) / 2
    return line.block >= 0 and grid.xs[0] - 1 < x < grid.xs[-1] + 1 and grid.ys[0] - 1 < y < grid.ys[-1] + 1


def _build_table(grid: RuledGrid, lines: Sequence[TextLine], hyphenated: Set[str]) -> PageTable | None:
    width, height = len(grid.xs) - 1, len(grid.ys) - 1
    if len(lines) < 3 or width * height > MAX_CELLS:
        return None
    cells = list(_iter_cells(grid))
    covered = sum(cell.rows * cell.columns for cell in cells if cell.columns not in (1, width))
    if covered > MAX_SPAN_SHARE * width * height:
        return None
    owners = [[cells[0]] * width for _ in range(height)]
    for cell in cells:
        for row in range(cell.row, cell.row + cell.rows):
            owners[row][cell.column : cell.column + cell.columns] = [cell] * cell.columns
    for line in lines:
        _add_line(line, grid, owners)
    for cell in cells:
        cell.text = _join_cell(cell.pieces, hyphenated)
    filled = [cell for cell in cells if cell.text]
    if not _is_table(filled):
        return None
    return _build_rows(grid, owners, lines)


def _is_table(filled: Sequence[_GridCell]) -> bool:
    """Return whether the cells with text are a table: at least two rows and two columns, and no columns of prose."""
    if len({cell.row for cell in filled}) < 2 or len({cell.column for cell in filled}) < 2:
        return False
    return max(len(cell.text) for cell in filled) <= MAX_CELL_CHARACTERS


def _iter_cells(grid: RuledGrid) -> Iterator[_GridCell]:
    """Yield the cells of a grid. A cell reaches to the next drawn lines on its right and below it."""
    width, height = len(grid.xs) - 1, len(grid.ys) - 1
    assigned = [[False] * width for _ in range(height)]
    for row in range(height):
        for column in range(width):
            if assigned[row][column]:
                continue
            columns = 1
            while column + columns < width and not grid.has_right[row][column + columns - 1]:
                if assigned[row][column + columns]:
                    break
                columns += 1
            rows = 1
            while row + rows < height and not any(grid.has_bottom[row + rows - 1][column : column + columns]):
                rows += 1
            for covered in range(row, row + rows):
                assigned[covered][column : column + columns] = [True] * columns
            yield _GridCell(row, column, rows, columns)


def _add_line(line: TextLine, grid: RuledGrid, owners: Sequence[Sequence[_GridCell]]) -> None:
    """Add a line to its cell. A line that crosses a drawn line is split at its spaces."""
    row = _find_range(grid.ys, (line.y0 + line.y1) / 2)
    first, last = _find_range(grid.xs, line.x0 + _TOLERANCE), _find_range(grid.xs, line.x1 - _TOLERANCE)
    if owners[row][first] is owners[row][last]:
        owners[row][first].pieces.append(line)
        return
    for word in split_words(line):
        owners[row][_find_range(grid.xs, (word.x0 + word.x1) / 2)].pieces.append(word)


def _find_range(places: Sequence[float], place: float) -> int:
    return min(max(0, bisect_right(places, place) - 1), len(places) - 2)


def _join_cell(pieces: Sequence[TextLine], hyphenated: Set[str]) -> str:
    rows = group_rows(pieces)
    return join_lines((" ".join(piece.text for piece in row) for row in rows), hyphenated)[0]


def _build_rows(grid: RuledGrid, owners: Sequence[Sequence[_GridCell]], lines: Sequence[TextLine]) -> PageTable:
    columns = [index for index in range(len(grid.xs) - 1) if any(row[index].text for row in owners)]
    by_row: dict[int, list[TextLine]] = {}
    for line in lines:
        by_row.setdefault(_find_range(grid.ys, (line.y0 + line.y1) / 2), []).append(line)
    table = PageTable(Columns([(grid.xs[index], grid.xs[index + 1]) for index in columns]), is_ruled=True)
    table.size = lines[0].size
    table.box = (grid.xs[0], grid.ys[0], grid.xs[-1], grid.ys[-1])
    rows: list[tuple[int, list[_GridCell], TextLine | None]] = []
    for index, row in enumerate(owners):
        pieces = by_row.get(index)
        cells = [row[column] for column in columns]
        if any(cell.text for cell in cells):
            rows.append((index, cells, join_pieces(pieces) if pieces else None))
    while len(rows) > 2 and _is_title(rows[0][1]):
        (_, _, title), *rows = rows
        if title is not None:
            table.caption.append(title)
    count = _count_header_rows([(number, cells) for number, cells, _ in rows])
    if count:
        head_lines = [line for _, _, line in rows[:count] if line is not None]
        table.head = TableRow(_join_heads([cells for _, cells, _ in rows[:count]]), join_pieces(head_lines))
    table.rows = [TableRow(_list_texts(cells), line) for _, cells, line in rows[count:]]
    return table


def _is_title(cells: Sequence[_GridCell]) -> bool:
    return len(cells) > 1 and all(cell is cells[0] for cell in cells)


def _list_texts(cells: Sequence[_GridCell]) -> list[str]:
    """Return the texts of a row. The text of a span is repeated, but a span over all columns is a label."""
    if _is_title(cells):
        return [cells[0].text]
    return [cell.text for cell in cells]


def _count_header_rows(rows: Sequence[tuple[int, Sequence[_GridCell]]]) -> int:
    """Return the number of header rows: the first row, and the rows below its spans. 0 if the first row has values.

    Each row has its number in the grid and its cells.
    """
    first = [cell.text for cell in rows[0][1][1:] if cell.text]
    values = [text for text in first if is_value(text) and not is_year(text)]
    if 2 * len(values) > len(first) or len(rows) < 2:
        return 0
    limit = min(MAX_HEADER_ROWS, len(rows) - 1)
    count, index = 1, 0
    while index < count < limit:
        number, cells = rows[index]
        for cell in cells:
            count = max(count, index + cell.row + cell.rows - number)
            is_span = 1 < cell.columns < len(cells) and cell.row == number and cell.column > 0
            if is_span and _is_subhead(cells, rows[index + 1][1]):
                count = max(count, index + 2)
        index += 1
    return min(count, limit)


def _is_subhead(head: Sequence[_GridCell], below: Sequence[_GridCell]) -> bool:
    """Return whether the row below a header row with spans has the names of the columns below the spans."""
    has_label = below[0] is not head[0] and bool(below[0].text) and bool(head[0].text)
    return not has_label and all(is_year(cell.text) or not is_value(cell.text) for cell in below[1:])


def _join_heads(rows: Sequence[Sequence[_GridCell]]) -> list[str]:
    heads = []
    for column in range(len(rows[0])):
        texts: list[str] = []
        for row in rows:
            if row[column].text and row[column].text not in texts:
                texts.append(row[column].text)
        heads.append(" ".join(texts))
    return heads

"""Header rows of a table without ruling lines: cells above one column or above several columns."""

import re
from collections.abc import Sequence

from app.ingestion.parsers.formats.pdf.table_cells import Cell
from app.ingestion.parsers.formats.pdf.table_columns import Columns

_SPANNER = re.compile(r"\b(?:ended|ending|as of|at|jahr|quartal|année|exercice)\b", re.IGNORECASE)
_MAX_OFFSET = 0.03
_MAX_SPANNER_OFFSET = 0.15
"""Maximum distance of the centre of a cell that is above all columns from their centre, as a share of their width."""


def build_head(columns: Columns, rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Join the header rows of each column by spaces. A cell above several columns is repeated for each of them.

    Args:
        columns: Columns of the table.
        rows: Cells of the header rows, from top to bottom, each from left to right.

    Returns:
        The header cell of each column.
    """
    columns = Columns(columns.edges)
    for cells in reversed(rows):  # a head that is wider than its column shows the place of the column
        match = columns.match(cells)
        if match is not None and -1 not in match:
            columns.add(cells, match)
    texts: list[list[str]] = [[] for _ in columns.edges]
    above: list[Cell | None] = [None] * len(columns.edges)
    for cells in rows:
        owners = _assign_cells(columns, cells, above)
        for column, owner in enumerate(owners):
            if owner is not None and owner.text not in texts[column]:
                texts[column].append(owner.text)
        above = [owner or upper for owner, upper in zip(owners, above, strict=True)]
    return [" ".join(words) for words in texts]


def _assign_cells(columns: Columns, cells: Sequence[Cell], above: Sequence[Cell | None]) -> list[Cell | None]:
    """Return the cell above each column. ``above`` has the cells of the header rows above."""
    edges = columns.edges
    owners: list[Cell | None] = [None] * len(edges)
    if len(cells) == 1 and len(edges) > 2 and _is_above_all(columns, cells[0]):
        return [None, *[cells[0]] * (len(edges) - 1)]
    for column, (left, right) in enumerate(edges):
        nearest = min(cells, key=lambda cell: max(left, cell.x0) - min(right, cell.x1))
        if max(left, nearest.x0) < min(right, nearest.x1):
            owners[column] = nearest
    for cell in cells:
        if cell not in owners:
            free = owners[columns.find_nearest(cell)]
            if free is None:
                owners[columns.find_nearest(cell)] = cell
    for cell in cells:
        _expand_cell(columns, cell, owners, above)
    return owners


def _is_above_all(columns: Columns, cell: Cell) -> bool:
    left, right = columns.edges[1][0], columns.edges[-1][1]
    if cell.x0 < columns.edges[0][0] + 1:
        return False
    limit = _MAX_SPANNER_OFFSET if _SPANNER.search(cell.text) else _MAX_OFFSET
    return abs(left + right - cell.x0 - cell.x1) < 2 * limit * (right - left)


def _expand_cell(columns: Columns, cell: Cell, owners: list[Cell | None], above: Sequence[Cell | None]) -> None:
    """Give free columns next to a cell to the cell if it is centred above all of them, or below a wider cell."""
    own = [column for column, owner in enumerate(owners) if owner is cell]
    if not own or own[0] == 0:
        return
    first, last = own[0], own[-1]
    upper = above[first]
    low, high = first, last
    while low > 1 and owners[low - 1] is None and (upper is None or above[low - 1] is upper):
        low -= 1
    while high + 1 < len(owners) and owners[high + 1] is None and (upper is None or above[high + 1] is upper):
        high += 1
    candidates = [(i, j) for i in range(max(low, first - 12), first + 1) for j in range(last, min(high, last + 12) + 1)]
    best = min(candidates, key=lambda pair: (_measure_offset(columns, cell, *pair), pair[0] - pair[1]))
    if (
        upper is not None
        and low < high
        and abs(upper.x0 + upper.x1 - cell.x0 - cell.x1) / 2 < _measure_offset(columns, cell, first, last)
    ):
        best = low, high
    for column in range(best[0], best[1] + 1):
        if owners[column] is None:
            owners[column] = cell


def _measure_offset(columns: Columns, cell: Cell, first: int, last: int) -> float:
    """Return the distance of the centre of a cell from the centre of columns, in points."""
    return abs(columns.edges[first][0] + columns.edges[last][1] - cell.x0 - cell.x1) / 2

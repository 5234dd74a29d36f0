"""Rows of RTF tables: the right edges of the cells decide which columns a cell covers."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.spanned_tables import SpannedCell, format_spanned_table

_TOLERANCE = 60
"""Distance in twips (1/1440 inch) below which two edges are one edge."""

MAX_CELLS_OF_ROW = 1000


@dataclass(frozen=True, slots=True)
class CellDefinition:
    """Definition of a cell of a row.

    Attributes:
        right: Right edge in twips.
        is_left_continued: Whether the cell is merged with the cell to the left.
        is_above_start: Whether the cell is the first of cells that are merged vertically.
        is_above_continued: Whether the cell is merged with the cell above.
    """

    right: int
    is_left_continued: bool = False
    is_above_start: bool = False
    is_above_continued: bool = False


@dataclass(slots=True)
class RowDefinition:
    """Definition of a row: its left edge, its cells, and whether it is a header that pages repeat."""

    left: int = 0
    cells: list[CellDefinition] = field(default_factory=list)
    is_header: bool = False

    def add_cell(self, cell: CellDefinition) -> None:
        """Add the definition of the next cell; cells beyond the limit are left out."""
        if len(self.cells) < MAX_CELLS_OF_ROW:
            self.cells.append(cell)


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a table: its definition, and the texts of its cells."""

    definition: RowDefinition
    texts: Sequence[str]


def format_rows(rows: Sequence[Row], head_lines: Sequence[str] = ()) -> str:
    """Return the rows of a table as Markdown; empty if no cell has text. Raises TextTooLong."""
    placed = [_read_cells(row) for row in rows]
    edges = _merge_edges({edge for cells in placed for cell in cells for edge in (cell.left, cell.right)})
    grid = [_assign_columns(cells, edges) for cells in placed]
    _join_vertically(grid)
    header_rows = 0
    while header_rows < len(rows) and rows[header_rows].definition.is_header:
        header_rows += 1
    table = [
        [SpannedCell(" ".join(cell.texts), cell.columns, cell.rows) for cell in cells if not cell.is_covered]
        for cells in grid
    ]
    return format_spanned_table(table, header_count=header_rows or None, head_lines=head_lines)


@dataclass(slots=True)
class _PlacedCell:
    texts: list[str]
    left: int
    right: int
    is_above_start: bool = False
    is_above_continued: bool = False
    column: int = 0
    columns: int = 1
    rows: int = 1
    is_covered: bool = False


def _read_cells(row: Row) -> list[_PlacedCell]:
    """Return the cells of a row with their edges. Cells without a definition follow to the right."""
    cells: list[_PlacedCell] = []
    left, definitions = row.definition.left, row.definition.cells
    for index in range(max(len(row.texts), len(definitions))):
        text = row.texts[index] if index < len(row.texts) else ""
        definition = definitions[index] if index < len(definitions) else CellDefinition(left + 1440)
        right = max(left, definition.right)
        if definition.is_left_continued and cells:
            cells[-1].right = right
            cells[-1].texts.append(text)
        else:
            cells.append(_PlacedCell([text], left, right, definition.is_above_start, definition.is_above_continued))
        left = right
    return cells


def _merge_edges(edges: set[int]) -> list[int]:
    """Return the edges in order, without those that are close to the edge before."""
    merged: list[int] = []
    for edge in sorted(edges):
        if not merged or edge - merged[-1] > _TOLERANCE:
            merged.append(edge)
    return merged


def _assign_columns(cells: list[_PlacedCell], edges: list[int]) -> list[_PlacedCell]:
    """Set the columns of the cells of one row. An empty cell fills the columns before the first cell."""
    column = 0
    first = _find_column(cells[0].left, edges) if cells else 0
    row = [_PlacedCell([], edges[0], cells[0].left, columns=first)] if first else []
    for cell in cells:
        column = max(column, _find_column(cell.left, edges))
        cell.column, cell.columns = column, max(1, _find_column(cell.right, edges) - column)
        column += cell.columns
        row.append(cell)
    return row


def _find_column(edge: int, edges: list[int]) -> int:
    """Return the number of the column that begins at an edge."""
    return max(0, bisect_left(edges, edge - _TOLERANCE))


def _join_vertically(grid: list[list[_PlacedCell]]) -> None:
    """Let each cell that starts a vertical merge cover the cells below that continue it and have no text."""
    owners: dict[int, _PlacedCell] = {}
    for row in grid:
        below: dict[int, _PlacedCell] = {}
        for cell in row:
            owner = owners.get(cell.column)
            is_continued = cell.is_above_continued and not any(cell.texts)
            if is_continued and owner is not None and owner.columns == cell.columns:
                owner.rows += 1
                cell.is_covered = True
                below[cell.column] = owner
            elif cell.is_above_start:
                below[cell.column] = cell
        owners = below

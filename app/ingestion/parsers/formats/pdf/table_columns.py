"""Columns of a table without ruling lines, recognized from the positions of the cells in its rows."""

from collections.abc import Sequence
from itertools import pairwise

from app.ingestion.parsers.formats.pdf.table_cells import Cell

_MIN_OVERLAP = 1.5
"""Overlap in points from which a cell is in a column. Neighbouring cells may touch each other."""


class Columns:
    """Columns of a table. Each column is the range between the outermost edges of its cells.

    Attributes:
        edges: Left and right edge of each column in points, from left to right.
    """

    def __init__(self, edges: Sequence[tuple[float, float]] = ()) -> None:
        self.edges = list(edges)

    def __len__(self) -> int:
        return len(self.edges)

    def find_overlapping(self, cell: Cell) -> list[int]:
        """Return the indexes of the columns that a cell overlaps."""
        x0, x1 = cell.x0 + _MIN_OVERLAP, cell.x1 - _MIN_OVERLAP
        if x1 <= x0:
            x0 = x1 = (cell.x0 + cell.x1) / 2
        return [index for index, (left, right) in enumerate(self.edges) if left < x1 and x0 < right]

    def match(self, cells: Sequence[Cell]) -> list[int] | None:
        """Return the column of each cell of a row.

        Args:
            cells: Cells, from left to right.

        Returns:
            The index of a column for each cell; -1 for a cell between the columns. None if the row does not fit: a cell
            covers two columns, or two cells are in one column.
        """
        indexes: list[int] = []
        used = -1
        for number, cell in enumerate(cells):
            overlapping = self.find_overlapping(cell)
            if not overlapping:
                indexes.append(-1)
                continue
            if len(overlapping) > 1:
                following = cells[number + 1] if number + 1 < len(cells) else None
                is_long_label = number == 0 and overlapping[0] == 0
                if not is_long_label or (following and self._is_left_of(following, overlapping[-1])):
                    return None
            if overlapping[0] < used or (overlapping[0] == used and used > 0):
                return None
            used = overlapping[0]
            indexes.append(used)
        return indexes

    def _is_left_of(self, cell: Cell, column: int) -> bool:
        overlapping = self.find_overlapping(cell)
        return bool(overlapping) and overlapping[0] <= column

    def add(self, cells: Sequence[Cell], indexes: Sequence[int]) -> None:
        """Update the columns by the cells of a row that fits. A cell between the columns becomes a column.

        Args:
            cells: Cells of the row.
            indexes: Result of ``match`` for the cells.
        """
        has_new = False
        for number, (cell, index) in enumerate(zip(cells, indexes, strict=True)):
            if index < 0:
                self.edges.append((cell.x0, cell.x1))
                has_new = True
                continue
            left, right = self.edges[index]
            is_free = index + 1 >= len(self.edges) or cell.x1 <= self.edges[index + 1][0]
            x1 = cell.x1 if is_free or number else right
            if cell.x0 < left or x1 > right:
                self.edges[index] = (min(left, cell.x0), max(right, x1))
        if has_new:
            self.edges.sort()

    def find_nearest(self, cell: Cell) -> int:
        """Return the column that a cell overlaps most; the nearest column if it overlaps none."""
        for index, (left, right) in enumerate(self.edges):
            if left <= cell.x0 and cell.x1 <= right:
                return index
        return min(
            range(len(self.edges)),
            key=lambda index: (
                max(self.edges[index][0], cell.x0) - min(self.edges[index][1], cell.x1),
                abs(sum(self.edges[index]) - cell.x0 - cell.x1),
            ),
        )

    def is_similar(self, other: "Columns", tolerance: float) -> bool:
        """Return whether the columns have the places of other columns, so that a table may continue.

        Args:
            other: Columns of the other table.
            tolerance: Maximum distance in points between the nearer edges of two columns.
        """
        if not self.edges or len(self) != len(other):
            return False
        return all(
            min(abs(first[0] - second[0]), abs(first[1] - second[1])) <= tolerance
            or (first[0] < second[1] and second[0] < first[1])
            for first, second in zip(self.edges, other.edges, strict=True)
        )

    def merge_alternatives(self, rows: Sequence[Sequence[int]], max_gap: float) -> None:
        """Merge neighbouring columns that no row fills both, such as numbers and dashes of one column.

        Args:
            rows: Columns of the cells of each row.
            max_gap: Maximum distance of the merged columns in points.
        """
        pairs = {pair for row in rows for pair in pairwise(row)}
        edges: list[tuple[float, float]] = []
        merged: list[int] = []
        for index, (left, right) in enumerate(self.edges):
            is_apart = index < 2 or left - edges[-1][1] > max_gap or any((other, index) in pairs for other in merged)
            if is_apart:
                edges.append((left, right))
                merged = [index]
            else:
                edges[-1] = (edges[-1][0], max(edges[-1][1], right))
                merged.append(index)
        self.edges = edges

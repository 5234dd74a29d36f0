"""Tables of reStructuredText: grid tables, simple tables and list tables."""

import re
from collections.abc import Sequence
from itertools import pairwise

GRID_BORDER = re.compile(r"\+(?:[-=]{2,}+\+)++")
SIMPLE_BORDER = re.compile(r"={2,}+(?: ++={2,}+)++")
_RULE = re.compile(r"-{2,}+(?: ++-{2,}+)*+")
_COLUMN = re.compile(r"=+")


def parse_grid_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of a grid table.

    Args:
        lines: Lines of the table, without indentation.

    Returns:
        The rows of cells; an empty list if a cell spans columns or rows, which a Markdown table cannot express.
    """
    edges = [index for index, sign in enumerate(lines[0]) if sign == "+"]
    rows: list[list[str]] = []
    is_new_row = True
    for line in lines:
        if GRID_BORDER.fullmatch(line):
            if [index for index, sign in enumerate(line) if sign == "+"] != edges:
                return []
            is_new_row = True
        elif len(line) != edges[-1] + 1 or any(line[edge] != "|" for edge in edges):
            return []
        else:
            cells = [line[start + 1 : end].strip() for start, end in pairwise(edges)]
            _add_line(rows, cells, is_new_row=is_new_row)
            is_new_row = False
    return rows


def parse_simple_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of a simple table.

    Args:
        lines: Lines of the table, without indentation. The first line marks the columns.

    Returns:
        The rows of cells. A line whose first cell is empty continues the previous row.
    """
    starts = [column.start() for column in _COLUMN.finditer(lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if line and not SIMPLE_BORDER.fullmatch(line) and not _RULE.fullmatch(line):
            cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            _add_line(rows, cells, is_new_row=not rows or bool(cells[0]))
    return rows


def parse_list_rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of a ``list-table``: a list of rows (``* -``), each of which is a list of cells (``-``).

    Args:
        lines: Lines of the list.

    Returns:
        The rows of cells.
    """
    rows: list[list[str]] = []
    for line in lines:
        text = line.strip()
        if text.startswith("* -"):
            rows.append([text[3:].strip()])
        elif (text == "-" or text.startswith("- ")) and rows:
            rows[-1].append(text[1:].strip())
        elif text and rows:
            rows[-1][-1] = f"{rows[-1][-1]} {text}".strip()
    return rows


def _add_line(rows: list[list[str]], cells: list[str], *, is_new_row: bool) -> None:
    if is_new_row:
        rows.append(cells)
    else:
        rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]

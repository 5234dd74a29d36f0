"""The tables of reStructuredText: drawn as a grid, drawn by their columns, or written as a list of lists."""

import re
from collections.abc import Sequence
from itertools import pairwise

GRID_BORDER = re.compile(r"\+(?:[-=]{2,}+\+)++")
SIMPLE_BORDER = re.compile(r"={2,}+(?: ++={2,}+)++")
_RULE = re.compile(r"-{2,}+(?: ++-{2,}+)*+")
_COLUMN = re.compile(r"=+")


def parse_grid_rows(lines: Sequence[str]) -> list[list[str]]:
    """The cells of a grid table; empty where some span columns or rows, which no row of text can say."""
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
    """The cells of a simple table, whose first line shows the columns; a line without a first cell goes on the row."""
    starts = [column.start() for column in _COLUMN.finditer(lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines:
        if line and not SIMPLE_BORDER.fullmatch(line) and not _RULE.fullmatch(line):
            cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
            _add_line(rows, cells, is_new_row=not rows or bool(cells[0]))
    return rows


def parse_list_rows(lines: Sequence[str]) -> list[list[str]]:
    """The cells of a ``list-table``: a list of rows (``* -``), each a list of cells (``-``)."""
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

"""``make bench NAME=small-tables``: parse small tables with known grids in six formats, and count the right cells.

A cell is right if its value, its row and the head of its column come out in one row of one Markdown table.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from app.ingestion.parsers import PARSERS, ParseOptions
from app.ingestion.types import Block, BlockKind
from benchmarks.small_table_files import RENDERERS
from benchmarks.small_table_grids import SmallTable, list_tables

MIN_ACCURACY = 0.98
MEDIA_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "md": "text/markdown",
}
_CELL_END = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|( ?:?-{3,}:? ?\|)+")


@dataclass(slots=True)
class CellFigures:
    """Number of right cells and of all cells, and the tables with wrong cells."""

    right: int = 0
    total: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """Heads and rows of a table in Markdown."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def parse_file(extension: str, data: bytes) -> list[Block]:
    """Return the blocks of a file."""
    parser = import_module(PARSERS[MEDIA_TYPES[extension]].module)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{extension}"
        path.write_bytes(data)
        blocks: list[Block] = parser.parse(path, ParseOptions(None, max_pages=100, max_characters=1_000_000)).blocks
        return blocks


def read_markdown(text: str) -> MarkdownTable | None:
    """Return the table in a text; None if the text has no line of dashes below a row of heads."""
    lines = text.split("\n")
    rule = next((number for number, line in enumerate(lines) if _RULE.fullmatch(line)), 0)
    if rule == 0:
        return None
    rows = [_split_row(line) for line in lines[rule + 1 :] if line.startswith("|")]
    return MarkdownTable(_split_row(lines[rule - 1]), rows)


def count_cells(table: SmallTable, parsed: Sequence[MarkdownTable]) -> tuple[int, int]:
    """Return the number of right cells and of all cells of a table. The table that has the most right cells counts."""
    heads = [normalize(head) for head in table.list_heads()]
    rows = [[normalize(cell) for cell in row] for row in table.list_rows()]
    total = sum(len(row) for row in rows)
    return max((_count_right(heads, rows, candidate) for candidate in parsed), default=0), total


def normalize(text: str) -> str:
    """Return a text without white space and the signs that join the lines of a cell."""
    return re.sub(r"[\s;]+", "", text.replace("\\|", "|"))


def measure(extension: str, tables: Sequence[SmallTable]) -> CellFigures:
    """Render all tables in one format, parse them and count their cells."""
    figures = CellFigures()
    for table in tables:
        blocks = parse_file(extension, RENDERERS[extension](table))
        texts = [block.text for block in blocks if block.kind is BlockKind.TABLE]
        parsed = [candidate for text in texts if (candidate := read_markdown(text)) is not None]
        right, total = count_cells(table, parsed)
        figures.right += right
        figures.total += total
        if right < total:
            figures.wrong.append(f"{table.name} ({right} of {total}):\n" + "\n".join(block.text for block in blocks))
    return figures


def main() -> None:
    """Print the cell accuracy of each format. The exit code is 1 if a format is below the aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", nargs="+", default=list(RENDERERS), choices=list(RENDERERS))
    parser.add_argument("--failures", action="store_true", help="print the text of tables with wrong cells")
    options = parser.parse_args()
    tables = list_tables()
    missed = False
    print(f"{len(tables)} tables\n\n| format | right cells | cells | accuracy | tables with faults |\n"
          "| --- | --- | --- | --- | --- |")  # fmt: skip
    for extension in options.formats:
        figures = measure(extension, tables)
        accuracy = figures.right / figures.total
        names = ", ".join(text.split(" ", 1)[0] for text in figures.wrong)
        print(f"| {extension} | {figures.right} | {figures.total} | {accuracy:.1%} | {names} |")
        if options.failures:
            print("\n\n".join(figures.wrong), file=sys.stderr)
        missed |= accuracy < MIN_ACCURACY
    sys.exit(missed)


def _count_right(heads: Sequence[str], rows: Sequence[Sequence[str]], parsed: MarkdownTable) -> int:
    parsed_heads = [normalize(head) for head in parsed.heads]
    remaining = [[normalize(cell) for cell in row] for row in parsed.rows]
    right = 0
    for row in rows:
        match = max(remaining, key=lambda other: _count_equal(heads, row, parsed_heads, other), default=None)
        if match is not None and match[:1] == row[:1]:
            right += _count_equal(heads, row, parsed_heads, match)
            remaining.remove(match)
    return right


def _count_equal(heads: Sequence[str], row: Sequence[str], parsed_heads: Sequence[str], parsed: Sequence[str]) -> int:
    """Return the number of cells of a row that are in the same column, below the same head."""
    return sum(
        column < min(len(parsed), len(parsed_heads))
        and parsed[column] == cell
        and parsed_heads[column] == heads[column]
        for column, cell in enumerate(row)
    )


def _split_row(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL_END.split(line)[1:-1]]


if __name__ == "__main__":
    main()

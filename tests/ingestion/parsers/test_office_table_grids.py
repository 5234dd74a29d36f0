"""Word and PowerPoint: small tables with known grids keep every cell, with merged cells as the libraries write them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docx as python_docx
import pptx as python_pptx
import pytest
from pptx.util import Inches

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.ingestion.types import BlockKind, ParsedDocument
from benchmarks.small_table_grids import SmallTable, list_tables

_CELL_END = re.compile(r"(?<!\\)\|")


def fill_cells(table: Any, content: SmallTable) -> None:
    """Write the cells and merge those that span columns or rows. Word's library returns the merged cell."""
    for number, row in enumerate([*content.header, *content.rows]):
        for column, cell in enumerate(row):
            if cell is None:
                continue
            written = table.cell(number, column)
            if cell.columns > 1 or cell.rows > 1:
                last = table.cell(number + cell.rows - 1, column + cell.columns - 1)
                written = written.merge(last) or written
            written.text = cell.text


def read_word(content: SmallTable, path: Path, options: ParseOptions) -> ParsedDocument:
    document = python_docx.Document()
    for line in content.caption:
        document.add_paragraph(line)
    rows = [*content.header, *content.rows]
    fill_cells(document.add_table(len(rows), len(rows[0])), content)
    for line in content.footnotes:
        document.add_paragraph(line)
    document.save(str(path))
    return docx_parser.parse(path, options)


def read_slide(content: SmallTable, path: Path, options: ParseOptions) -> ParsedDocument:
    show = python_pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[6])
    rows = [*content.header, *content.rows]
    shape: Any = slide.shapes.add_table(len(rows), len(rows[0]), Inches(0), Inches(0), Inches(8), Inches(3))
    fill_cells(shape.table, content)
    show.save(str(path))
    return pptx_parser.parse(path, options)


def list_cells(document: ParsedDocument) -> list[list[str]]:
    text = next(block.text for block in document.blocks if block.kind is BlockKind.TABLE)
    lines = [line for line in text.split("\n") if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip().replace("\\|", "|") for cell in _CELL_END.split(line[1:-1])] for line in lines]


def drop_empty_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(row) for row in rows if any(row)]


@pytest.mark.parametrize("content", list_tables(), ids=[content.name for content in list_tables()])
@pytest.mark.parametrize("read", [read_word, read_slide], ids=["docx", "pptx"])
def test_office_table_has_every_cell_of_its_grid(
    read: Any, content: SmallTable, tmp_path: Path, options: ParseOptions
) -> None:
    cells = list_cells(read(content, tmp_path / "file", options))
    assert cells == drop_empty_rows([content.list_heads(), *content.list_rows()])

"""Tables of PDF files: ruled and unruled, with heads, spans, wrapped cells and parts on several pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from app.ingestion.types import Block, BlockKind
from benchmarks.small_table_grids import TABLES, Ruling, SmallTable, list_tables
from benchmarks.small_table_pdfs import render_pdf
from tests.ingestion.parsers.pdf_files import parse_pdf, prose, write_pages

# Without vertical lines, these tables are ambiguous: a name over two columns, and cells with several lists.
_AMBIGUOUS = {"colspan-head", "lists", "long-cells"}
_RULE = re.compile(r"\|(?: --- \|)+")


def split_row(line: str) -> list[str]:
    """Return the cells of a row of Markdown, without white space."""
    return [re.sub(r"\s", "", cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def read_tables(path: Path) -> list[Block]:
    return [block for block in parse_pdf(path).blocks if block.kind is BlockKind.TABLE]


def split_table(block: Block) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """Return the caption lines, the header cells, the rows and the footnotes of a table."""
    lines = block.text.split("\n")
    rule = next(index for index, line in enumerate(lines) if _RULE.fullmatch(line))
    rows = [split_row(line) for line in lines[rule + 1 :] if line.startswith("| ")]
    notes = [line for line in lines[rule + 1 :] if not line.startswith("| ")]
    return lines[: rule - 1], split_row(lines[rule - 1]), rows, notes


def check_table(table: SmallTable, path: Path) -> None:
    (block,) = read_tables(path)
    caption, head, rows, notes = split_table(block)
    assert caption == list(table.caption)
    assert head == [re.sub(r"\s", "", cell) for cell in table.list_heads()]
    assert rows == [[re.sub(r"\s", "", cell) for cell in row] for row in table.list_rows()]
    assert notes == list(table.footnotes)


@pytest.mark.capability("format-pdf-tables")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_pdf_small_table_has_its_grid(table: SmallTable, tmp_path: Path) -> None:
    path = tmp_path / "table.pdf"
    path.write_bytes(render_pdf(table, has_prose=True))
    check_table(table, path)


@pytest.mark.parametrize("ruling", [Ruling.NONE, Ruling.HORIZONTAL, Ruling.ALL])
def test_pdf_small_tables_in_any_ruling_have_their_grids(ruling: Ruling, tmp_path: Path) -> None:
    path = tmp_path / "table.pdf"
    for table in list_tables(ruling):
        if ruling is Ruling.ALL or table.name not in _AMBIGUOUS:
            path.write_bytes(render_pdf(table, has_prose=True))
            check_table(table, path)


@pytest.mark.parametrize("ruling", [Ruling.NONE, Ruling.ALL])
@pytest.mark.parametrize("name", ["parts", "balance", "income", "regions", "years-as-rows", "rates", "german"])
def test_pdf_table_on_next_page_has_the_same_head(name: str, ruling: Ruling, tmp_path: Path) -> None:
    table = replace(next(table for table in TABLES if table.name == name), ruling=ruling, has_split_signs=False)
    path = tmp_path / "pages.pdf"
    path.write_bytes(render_pdf(table, rows_per_page=2))
    blocks = read_tables(path)
    parts = [split_table(block) for block in blocks]
    assert [block.page for block in blocks] == list(range(1, len(blocks) + 1))
    assert all(part[:2] == parts[0][:2] for part in parts)
    rows = [row for part in parts for row in part[2]]
    assert rows == [[re.sub(r"\s", "", cell) for cell in row] for row in table.list_rows()]


def test_pdf_ruled_cells_with_gaps_and_lines_stay_in_their_columns(tmp_path: Path) -> None:
    grid = [
        ["Plan", "Seats", "Storage", "Help"],
        ["Home", "", "5 GB", "Forum"],
        ["Team", "20\nor more", "", "Mail,\nworkdays"],
        ["Firm", "", "", "Phone"],
    ]
    (block,) = read_tables(write_grid(tmp_path / "ruled.pdf", grid))
    _, head, rows, _ = split_table(block)
    assert [head, *rows] == [[re.sub(r"\s", "", cell) for cell in row] for row in grid]


def write_grid(path: Path, grid: Sequence[Sequence[str]], *, is_filled: bool = False) -> Path:
    """Write a table whose cells are stroked rectangles, or thin filled rectangles between the cells."""
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    y = 100.0
    for row in grid:
        height = 8 + 14 * max(cell.count("\n") + 1 for cell in row)
        for column, cell in enumerate(row):
            x = 72 + 110 * column
            if is_filled:
                page.draw_rect(fitz.Rect(x, y, x + 110, y + 0.8), color=None, fill=(0, 0, 0))
                page.draw_rect(fitz.Rect(x, y + height, x + 110, y + height + 0.8), color=None, fill=(0, 0, 0))
                page.draw_rect(fitz.Rect(x, y, x + 0.8, y + height), color=None, fill=(0, 0, 0))
            else:
                page.draw_rect(fitz.Rect(x, y, x + 110, y + height))
            for number, line in enumerate(cell.split("\n")):
                page.insert_text((x + 4, y + 13 + 14 * number), line, fontsize=10)
        y += height
    document.save(path)
    document.close()
    return path


def test_pdf_cells_between_filled_lines_are_read(tmp_path: Path) -> None:
    grid = [["Tool", "Use", "Place"], ["Saw", "wood\nand bone", ""], ["Awl", "", "drawer 2"], ["Rasp", "horn", "wall"]]
    (block,) = read_tables(write_grid(tmp_path / "filled.pdf", grid, is_filled=True))
    _, head, rows, _ = split_table(block)
    assert [head, *rows] == [[re.sub(r"\s", "", cell) for cell in row] for row in grid]


@pytest.mark.parametrize(
    ("unit", "title"),
    [
        ("(in millions, except per share amounts)", "Statement of income"),
        ("Dollars in thousands", "Statement of cash flows"),
        ("(unaudited, in billions)", "Balance sheet"),
        ("(Amounts in EUR)", "Net assets by fund"),
        ("In millions", "Headcount and sales"),
    ],
)
def test_pdf_lines_above_table_are_caption_lines(unit: str, title: str, tmp_path: Path) -> None:
    lines: list[tuple[Any, ...]] = [(72, 100, title), (72, 114, unit), (300, 134, "2025"), (400, 134, "2024")]
    for number, label in enumerate(("Sales", "Costs", "Profit")):
        lines += [(72, 150 + 16 * number, label), (300, 150 + 16 * number, f"{number}1,240")]
        lines += [(400, 150 + 16 * number, f"{number}2,380")]
    (block,) = read_tables(write_pages(tmp_path / "caption.pdf", [[*lines, *prose(1, 300)]]))
    caption, head, rows, _ = split_table(block)
    assert (caption, head) == ([title, unit], ["", "2025", "2024"])
    assert rows[1] == ["Costs", "11,240", "12,380"]


@pytest.mark.parametrize(
    "note", ["(1) Without agencies.", "* Estimated.", "Source: own survey", "Note: rounded.", "n/m Not meaningful"]
)
def test_pdf_footnote_stays_with_its_table(note: str, tmp_path: Path) -> None:
    lines: list[tuple[Any, ...]] = []
    for number, row in enumerate((("Site", "2024", "2025"), ("Bremen", "12", "14"), ("Kiel", "9", "7"))):
        lines += [(72 + 120 * column, 100 + 16 * number, cell) for column, cell in enumerate(row)]
    lines.append((72, 152, note, 9))
    (block,) = read_tables(write_pages(tmp_path / "note.pdf", [[*lines, *prose(1, 300)]]))
    assert split_table(block)[3] == [note]


def test_pdf_sentence_above_table_is_its_caption(tmp_path: Path) -> None:
    lines: list[tuple[Any, ...]] = [
        (72, 80, "The company leases ships and piers for up to ten years."),
        (72, 120, "The following table shows the payments that are due under these"),
        (72, 133, "leases at the end of the year (in millions):"),
    ]
    for number, row in enumerate((("2026", "$310"), ("2027", "280"), ("Thereafter", "1,120"))):
        lines += [(72, 150 + 16 * number, row[0]), (400, 150 + 16 * number, row[1])]
    (block,) = read_tables(write_pages(tmp_path / "sentence.pdf", [lines]))
    caption, head, rows, _ = split_table(block)
    assert caption[-1] == "leases at the end of the year (in millions):"
    assert caption[0].startswith("The following table")
    assert (head, rows[0]) == (["", ""], ["2026", "$310"])


NO_TABLES: dict[str, list[tuple[Any, ...]]] = {
    "bullets": [
        item
        for number, text in enumerate(("Bring a coat.", "The pier is cold.", "Boats wait for nobody.", "Pay on board."))
        for item in ((72, 100 + 16 * number, "•"), (100, 100 + 16 * number, text))
    ],
    "numbered items": [
        item
        for number, text in enumerate(("Open the valve.", "Wait for steam.", "Close the lid.", "Read the gauge."), 1)
        for item in ((72, 100 + 16 * number, f"{number}."), (100, 100 + 16 * number, text))
    ],
    "contents with leaders": [
        (72, 100 + 16 * number, f"{title} {'.' * 60} {3 * number + 1}")
        for number, title in enumerate(("Arrival", "Harbour", "Ferries", "Hotels", "Index"))
    ],
    "contents with page numbers": [
        item
        for number, title in enumerate(("Arrival", "Harbour", "Ferries", "Hotels", "Trains", "Index"))
        for item in ((72, 100 + 16 * number, title), (500, 100 + 16 * number, str(3 * number + 1)))
    ],
    "prose in two columns": [
        item
        for number in range(12)
        for item in (
            (50, 100 + 13 * number, f"The left column says {number} things about the harbours."),
            (320, 100 + 13 * number, f"And the right one has {number} words about mountains."),
        )
    ],
    "addresses": [
        item
        for number, (left, right) in enumerate(
            (("Alder Works", "Birch & Sons"), ("Kaiweg 4", "Rue du Port 12"), ("20457 Hamburg", "69002 Lyon"))
        )
        for item in ((72, 100 + 13 * number, left), (320, 100 + 13 * number, right))
    ],
    "form": [
        item
        for number, (left, right) in enumerate(
            (("Name:", "Date of birth:"), ("Street:", "Telephone:"), ("Town:", "Signature:"))
        )
        for item in ((72, 100 + 24 * number, left), (320, 100 + 24 * number, right))
    ],
    "form with lines to write on": [
        item
        for number, (left, right) in enumerate((("Name", "Date"), ("Street", "Place"), ("Town", "Country")))
        for item in ((72, 100 + 24 * number, f"{left} ______________"), (320, 100 + 24 * number, f"{right} ________"))
    ],
}


@pytest.mark.parametrize("kind", list(NO_TABLES))
def test_pdf_lines_that_are_no_cells_become_no_table(kind: str, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "lines.pdf", [[*NO_TABLES[kind], *prose(1, 500)]])
    assert read_tables(path) == []


def test_pdf_frame_around_prose_is_no_table(tmp_path: Path) -> None:
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    page.draw_rect(fitz.Rect(60, 60, 540, 400))
    page.draw_line((60, 90), (540, 90))
    for x, y, text in [(72, 80, "Notice"), *prose(1, 120)]:
        page.insert_text((x, y), text)
    document.save(tmp_path / "frame.pdf")
    assert read_tables(tmp_path / "frame.pdf") == []


def test_pdf_table_lines_have_boxes_in_reading_order(tmp_path: Path) -> None:
    table = next(table for table in TABLES if table.name == "footnotes")
    path = tmp_path / "boxes.pdf"
    path.write_bytes(render_pdf(table, has_prose=True))
    (block,) = read_tables(path)
    assert block.line_layout is not None
    boxes = block.line_layout.lines
    texts = [block.text[start:end] for start, end in zip(boxes[::6], boxes[1::6], strict=True)]
    assert texts == [line for line in block.text.split("\n") if not _RULE.fullmatch(line)]
    assert list(boxes[3::6]) == sorted(boxes[3::6])

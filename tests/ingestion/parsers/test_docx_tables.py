"""Word: spans, header rows, captions, lists and nested tables of tables."""

from pathlib import Path

import docx as python_docx
import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.types import BlockKind
from tests.ingestion.parsers.word import cell, formatted, p, paragraph, part, run, style, styles, table, write

HEAD_ROW = "<w:trPr><w:tblHeader/></w:trPr>"
LISTS = {
    "numbering": part(
        "w:numbering",
        '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="•"/></w:lvl>'
        '</w:abstractNum><w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:start w:val="1"/>'
        '<w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>',
    )
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


def read_tables(path: Path, options: ParseOptions) -> list[str]:
    return [block.text for block in docx_parser.parse(path, options).blocks if block.kind is BlockKind.TABLE]


def wide(text: str, span: int) -> str:
    return cell(p(text), f'<w:gridSpan w:val="{span}"/>')


def tall(text: str = "") -> str:
    return cell(p(text), '<w:vMerge w:val="restart"/>' if text else "<w:vMerge/>")


def bold(text: str, properties: str = "") -> str:
    return cell(paragraph(formatted(text, "<w:b/>")), properties)


def item(text: str, number: int) -> str:
    return p(text, f'<w:numPr><w:ilvl w:val="0"/><w:numId w:val="{number}"/></w:numPr>')


def row(*cells: str) -> list[str]:
    return [cell(p(text)) for text in cells]


SPANS = {
    "row label": (
        table(
            row("Region", "Plan", "Price"),
            [tall("Europe"), *row("Basic", "10 EUR")],
            [tall(), *row("Pro", "20 EUR")],
        ),
        ["| Region | Plan | Price |", "| Europe | Basic | 10 EUR |", "| Europe | Pro | 20 EUR |"],
    ),
    "head over two columns": (
        table([wide("Name", 2), *row("Age")], row("Ada", "Lovelace", "36"), row("Alan", "Turing", "41")),
        ["| Name | Name | Age |", "| Ada | Lovelace | 36 |", "| Alan | Turing | 41 |"],
    ),
    "two header rows that the file declares": (
        table(
            [HEAD_ROW, tall("Item"), wide("2025", 2)],
            [HEAD_ROW, tall(), *row("Q1", "Q2")],
            row("Rent", "10", "20"),
        ),
        ["| Item | 2025 Q1 | 2025 Q2 |", "| Rent | 10 | 20 |"],
    ),
    "two header rows by their spans": (
        table([tall("Item"), wide("Price", 2)], [tall(), *row("net", "gross")], row("Pen", "1", "2")),
        ["| Item | Price net | Price gross |", "| Pen | 1 | 2 |"],
    ),
    "two bold header rows": (
        table(
            [bold("Item"), bold("Year", '<w:gridSpan w:val="2"/>')],
            [bold("name"), bold("2024"), bold("2025")],
            row("Pen", "1", "2"),
        ),
        ["| Item name | Year 2024 | Year 2025 |", "| Pen | 1 | 2 |"],
    ),
    "title row": (
        table([wide("Prices of 2026", 3)], row("Plan", "Net", "Gross"), row("Pro", "10", "12")),
        ["Prices of 2026", "| Plan | Net | Gross |", "| Pro | 10 | 12 |"],
    ),
    "section row": (
        table(row("Plan", "Net"), [wide("Europe", 2)], row("Pro", "10"), [wide("Asia", 2)], row("Pro", "12")),
        ["| Plan | Net |", "| Europe | |", "| Pro | 10 |", "| Asia | |", "| Pro | 12 |"],
    ),
    "cell over two columns": (
        table(row("Day", "Noon", "Evening"), row("Mon", "soup", "rice"), [*row("Tue"), wide("closed", 2)]),
        ["| Day | Noon | Evening |", "| Mon | soup | rice |", "| Tue | closed | closed |"],
    ),
    "empty cells": (
        table(row("A", "B", "C"), row("1", "", "3"), row("", "", "6")),
        ["| A | B | C |", "| 1 | | 3 |", "| | | 6 |"],
    ),
    "grid columns that no cell begins in": (
        table([wide("A", 2), wide("B", 3)], [wide("1", 2), wide("2", 3)], [wide("3", 2), wide("4", 3)]),
        ["| A | B |", "| 1 | 2 |", "| 3 | 4 |"],
    ),
    "block of two columns and two rows": (
        table(
            row("A", "B", "C"),
            [cell(p("wide"), '<w:gridSpan w:val="2"/><w:vMerge w:val="restart"/>'), *row("1")],
            [cell(p(""), '<w:gridSpan w:val="2"/><w:vMerge/>'), *row("2")],
        ),
        ["| A | B | C |", "| wide | wide | 1 |", "| wide | wide | 2 |"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "lines"), SPANS.values(), ids=SPANS.keys())
def test_docx_spans_never_shift_cells(content: str, lines: list[str], path: Path, options: ParseOptions) -> None:
    write(path, content)
    text = read_tables(path, options)[0].split("\n")
    assert [line for line in text if not line.startswith("| ---")] == lines


def test_docx_merged_cells_of_python_docx_are_repeated(path: Path, options: ParseOptions) -> None:
    written = python_docx.Document()
    grid = written.add_table(4, 3)
    for number, text in enumerate(["Region", "Plan", "Price", "Europe", "A", "1", "", "B", "2", "Asia", "A", "3"]):
        grid.cell(number // 3, number % 3).text = text
    grid.cell(1, 0).merge(grid.cell(2, 0))
    written.save(str(path))
    assert read_tables(path, options)[0].split("\n")[2:] == [
        "| Europe | A | 1 |",
        "| Europe | B | 2 |",
        "| Asia | A | 3 |",
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (p("10 GB") + p("100 GB"), "10 GB 100 GB"),
        (item("10 GB", 1) + item("100 GB", 1), "10 GB; 100 GB"),
        (item("first", 2) + item("second", 2), "1. first; 2. second"),
        (p("Sizes:") + item("S", 1) + item("M", 1) + p("or L"), "Sizes: S; M or L"),
        (paragraph(run("<w:t>10</w:t><w:br/><w:t>20</w:t>")), "10 20"),
        (p("in") + table(row("a", "b"), row("c", "d")), "in; a b; c d"),
        (p("Rate|tax"), "Rate\\|tax"),
    ],
)
def test_docx_lines_of_a_cell_are_divided(content: str, text: str, path: Path, options: ParseOptions) -> None:
    write(path, table(row("Plan", "Storage"), [cell(p("Pro")), cell(content)]), LISTS)
    assert read_tables(path, options)[0].split("\n")[-1] == f"| Pro | {text} |"


def test_docx_numbered_cells_show_their_numbers(path: Path, options: ParseOptions) -> None:
    rows = [[cell(item("", 2)), cell(p(name))] for name in ("Ada", "Alan")]
    write(path, table(row("No.", "Name"), *rows), LISTS)
    assert read_tables(path, options)[0].split("\n")[2:] == ["| 1. | Ada |", "| 2. | Alan |"]


def test_docx_large_nested_table_follows_its_table(path: Path, options: ParseOptions) -> None:
    nested = table(row("k", "v"), row("a", "1"), row("b", "2"))
    write(path, table(row("Plan", "Details"), [cell(p("Pro")), cell(p("see below") + nested)]) + p("end"))
    assert [block.text for block in docx_parser.parse(path, options).blocks] == [
        "| Plan | Details |\n| --- | --- |\n| Pro | see below |",
        "| k | v |\n| --- | --- |\n| a | 1 |\n| b | 2 |",
        "end",
    ]


DATA = table(row("Plan", "Price"), row("Pro", "10"))
MARKDOWN = "| Plan | Price |\n| --- | --- |\n| Pro | 10 |"
CAPTION = styles('<w:style w:type="paragraph" w:styleId="Cap"><w:name w:val="caption"/></w:style>')


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (p("Table 1: Prices") + DATA + p("end"), [f"Table 1: Prices\n{MARKDOWN}", "end"]),
        (p("start") + DATA + p("Table 1: Prices"), ["start", f"Table 1: Prices\n{MARKDOWN}"]),
        (p("Preise", style("Cap")) + DATA, [f"Preise\n{MARKDOWN}"]),
        (p("Tabelle 3 Preise") + DATA, [f"Tabelle 3 Preise\n{MARKDOWN}"]),
        (p("表 1 価格") + DATA, [f"表 1 価格\n{MARKDOWN}"]),
        (p("Figure 1: A ship", style("Cap")) + DATA, ["Figure 1: A ship", MARKDOWN]),
        (
            p("Table 1: a") + DATA + p("Table 2: b") + DATA,
            [f"Table 1: a\n{MARKDOWN}", f"Table 2: b\n{MARKDOWN}"],
        ),
        (
            p("text") + DATA + p("Table 1: a") + DATA + p("Table 2: b"),
            ["text", f"Table 1: a\n{MARKDOWN}", f"Table 2: b\n{MARKDOWN}"],
        ),
        (p("Table 1 shows the prices. " * 20) + DATA, [("Table 1 shows the prices. " * 20).strip(), MARKDOWN]),
        (p("Table 1: far away") + p("text") + DATA, ["Table 1: far away", "text", MARKDOWN]),
    ],
)
def test_docx_captions_are_a_part_of_their_table(
    body: str, texts: list[str], path: Path, options: ParseOptions
) -> None:
    document = docx_parser.parse(write(path, body, CAPTION), options)
    assert [block.text for block in document.blocks] == texts


def test_docx_long_cell_over_rows_is_not_repeated(path: Path, options: ParseOptions) -> None:
    long_text = "word " * 100
    write(path, table(row("A", "B"), [tall(long_text), *row("1")], [tall(), *row("2")]))
    assert read_tables(path, options)[0].count("word") == 100


NOTE = part("w:footnotes", f'<w:footnote w:id="2">{p("without tax")}</w:footnote>')
MARKED = cell(paragraph(run("<w:t>Price</w:t><w:footnoteReference w:id='2'/>")))


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (DATA + p("* without tax") + p("end"), [f"{MARKDOWN}\n* without tax", "end"]),
        (
            DATA + p("Source: annual report") + p("(1) without tax"),
            [f"{MARKDOWN}\nSource: annual report\n(1) without tax"],
        ),
        (DATA + p("Table 1: Prices") + p("Note: without tax"), [f"Table 1: Prices\n{MARKDOWN}\nNote: without tax"]),
        (table([cell(p("Plan")), MARKED], row("Pro", "10")) + p("end"), [f"{MARKDOWN}\nwithout tax", "end"]),
        (DATA + p("text") + p("* without tax"), [MARKDOWN, "text", "* without tax"]),
        (p("* without tax") + DATA, ["* without tax", MARKDOWN]),
        (DATA + p("Notes are taken by hand."), [MARKDOWN, "Notes are taken by hand."]),
    ],
)
def test_docx_notes_of_a_table_stay_with_it(body: str, texts: list[str], path: Path, options: ParseOptions) -> None:
    document = docx_parser.parse(write(path, body, {"footnotes": NOTE}), options)
    assert [block.text for block in document.blocks] == texts

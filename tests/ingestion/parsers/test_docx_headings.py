"""Word: bold lines that are headings, and tables of contents that repeat headings."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.types import BlockKind
from app.warnings import ServiceWarning
from tests.ingestion.parsers.word import field, formatted, p, paragraph, plain, run, style, styles, table, write

BODY = p("The car is returned with a full tank, and every missing litre costs two euros.")
SIZES = styles(
    '<w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val="22"/></w:rPr></w:rPrDefault></w:docDefaults>',
    '<w:style w:type="paragraph" w:styleId="Strong"><w:rPr><w:b/></w:rPr></w:style>',
    '<w:style w:type="paragraph" w:styleId="Toc1"><w:name w:val="toc 1"/></w:style>',
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


def read_headings(path: Path, options: ParseOptions, *body: str) -> list[tuple[int, str]]:
    document = docx_parser.parse(write(path, "".join(body), SIZES), options)
    return [(block.level, block.text) for block in document.blocks if block.kind is BlockKind.HEADING]


def bold(text: str) -> str:
    return paragraph(formatted(text, "<w:b/>"))


def large(text: str) -> str:
    return paragraph(formatted(text, '<w:sz w:val="32"/>'))


@pytest.mark.parametrize(
    "line",
    [
        bold("Fuel and tolls"),
        bold("ITEM 1A. RISK FACTORS"),
        bold("How do I return the car?"),
        bold("Payment terms:"),
        bold("返却について"),
        paragraph(formatted("Fuel ", "<w:b/>"), formatted("and tolls", "<w:b/>")),
        p("Fuel and tolls", style("Strong")),
        large("Fuel and tolls"),
    ],
)
def test_docx_bold_or_large_line_is_a_heading(line: str, path: Path, options: ParseOptions) -> None:
    assert len(read_headings(path, options, BODY, line, BODY, BODY)) == 1


@pytest.mark.parametrize(
    "line",
    [
        bold("The car is returned full."),
        bold("12 January 2026"),
        bold("January 12, 2026"),
        bold("2026-01-12"),
        bold("Note: fuel"),
        bold("E = mc and more"),
        bold("• Fuel"),
        bold("1234"),
        bold("word " * 30),
        bold("Table 1: Prices"),
        paragraph(formatted("Fuel ", "<w:b/>"), plain("and tolls")),
        p("Fuel and tolls"),
        table([f"<w:tc>{bold('Fuel')}</w:tc>", f"<w:tc>{bold('Tolls')}</w:tc>"], [f"<w:tc>{p('1')}</w:tc>"] * 2),
    ],
)
def test_docx_sentence_date_or_item_is_no_heading(line: str, path: Path, options: ParseOptions) -> None:
    assert read_headings(path, options, BODY, line, BODY, BODY) == []


def test_docx_bold_lines_below_a_title_are_of_level_two(path: Path, options: ParseOptions) -> None:
    title = p("Rental terms", style("Heading1"))
    headings = read_headings(path, options, title, BODY, bold("Fuel"), BODY, bold("Tolls"), BODY, BODY, BODY)
    assert headings == [(1, "Rental terms"), (2, "Fuel"), (2, "Tolls")]


def test_docx_large_lines_are_above_bold_lines(path: Path, options: ParseOptions) -> None:
    headings = read_headings(path, options, large("Terms"), BODY, bold("Fuel"), BODY, BODY, BODY)
    assert headings == [(1, "Terms"), (2, "Fuel")]


def test_docx_with_heading_styles_reads_bold_lines_as_text(path: Path, options: ParseOptions) -> None:
    styled = "".join(p(name, style("Heading1")) + BODY for name in ("Fuel", "Tolls", "Fees"))
    assert [text for _, text in read_headings(path, options, styled, bold("Important"), BODY)] == [
        "Fuel",
        "Tolls",
        "Fees",
    ]


def test_docx_bold_throughout_has_no_headings(path: Path, options: ParseOptions) -> None:
    assert read_headings(path, options, *[bold(f"Line number {number}") for number in "abcdefgh"]) == []


def test_docx_address_in_bold_is_no_heading(path: Path, options: ParseOptions) -> None:
    address = bold("Northwind Ltd") + bold("Harbour Road") + bold("Hamburg")
    assert read_headings(path, options, address, BODY, BODY, BODY, BODY, BODY) == []


def test_docx_contents_entries_that_repeat_headings_are_counted(path: Path, options: ParseOptions) -> None:
    entries = p("1 Fuel\t3", style("Toc1")) + p("Tolls\t4", style("Toc1")) + p("Lost annex\t9", style("Toc1"))
    body = entries + p("Fuel", style("Heading1")) + BODY + p("Tolls", style("Heading1")) + BODY
    document = docx_parser.parse(write(path, body, SIZES), options)
    message = "2 entries of tables of contents were left out, because the text has their headings."
    assert document.blocks[0].text == "Lost annex 9"
    assert document.warnings == [ServiceWarning("contents_entries_removed", message, 2)]


def test_docx_contents_control_is_recognized(path: Path, options: ParseOptions) -> None:
    gallery = '<w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj>'
    contents = f"<w:sdt><w:sdtPr>{gallery}</w:sdtPr><w:sdtContent>{p('Fuel 3')}</w:sdtContent></w:sdt>"
    body = contents + p("Fuel", style("Heading1")) + BODY + p("Fuel")
    document = docx_parser.parse(write(path, body, SIZES), options)
    assert [block.text for block in document.blocks if block.text.startswith("Fuel")] == ["Fuel", "Fuel"]


def test_docx_bold_line_with_a_link_is_a_heading_without_its_address(path: Path, options: ParseOptions) -> None:
    code = run('<w:instrText>HYPERLINK "https://example.org/a"</w:instrText>')
    link = paragraph(field("begin"), code, field("separate"), formatted("Fuel", "<w:b/>"), field("end"))
    assert read_headings(path, options, BODY, link, BODY, BODY) == [(1, "Fuel")]

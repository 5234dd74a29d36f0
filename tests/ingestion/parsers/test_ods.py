"""OpenDocument spreadsheets: shown values, merged and repeated cells, hidden sheets, and hostile files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf import ods_parser
from app.ingestion.types import CorruptFile, EncryptedFile, IngestionError, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning
from tests.ingestion.parsers.opendocument import COVERED, NAMESPACES, SPREADSHEET, cell, p, row, style, write
from tests.ingestion.parsers.test_odt import CHART, MATH
from tests.ingestion.parsers.word import text_of

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

STYLES = (
    '<style:style style:name="off" style:family="table"><style:table-properties table:display="false"/></style:style>'
    '<style:style style:name="on" style:family="table"><style:table-properties table:display="true"/></style:style>'
    + style("up", "text", 'style:text-position="super 58%"')
)
EMPTY = "<table:table-cell/>"


def sheet(name: str, *rows: str, style_name: str = "on", more: str = "") -> str:
    return f'<table:table table:name="{name}" table:style-name="{style_name}">{more}{"".join(rows)}</table:table>'


def read(body: str, tmp_path: Path, options: ParseOptions, **more: object) -> ParsedDocument:
    path = write(tmp_path / "f", body, kind="spreadsheet", styles=STYLES, **more)  # type: ignore[arg-type]
    return ods_parser.parse(path, options)


def typed(kind: str, value: str, shown: str) -> str:
    return cell(shown, f'office:value-type="{kind}" office:value="{value}"')


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (typed("float", "7", "00007"), "00007"),
        (typed("percentage", "0.15", "15 %"), "15 %"),
        (typed("currency", "1234.5", "1,234.50 EUR"), "1,234.50 EUR"),
        (cell("1 May 2024", 'office:value-type="date" office:date-value="2024-05-01"'), "1 May 2024"),
        (cell("36:30", 'office:value-type="time" office:time-value="PT36H30M00S"'), "36:30"),
        ('<table:table-cell office:value-type="float" office:value="42"/>', "42"),
        ('<table:table-cell office:value-type="date" office:date-value="2024-05-01"/>', "2024-05-01"),
        ('<table:table-cell office:value-type="string" office:string-value="text"/>', "text"),
        (cell("10<text:span text:style-name='up'>6</text:span>"), "10⁶"),
        (cell(p("two") + p("lines")), "two\nlines"),
        (cell("a<text:s/>b"), "a b"),
        (cell("<text:p><text:a xlink:href='https://example.org/'>site</text:a></text:p>"),
         "[site](https://example.org/)"),
        (cell("7", 'table:formula="of:=SUM([.A1:.A3])" office:value="7"'), "7"),
    ],
)  # fmt: skip
def test_ods_cells_show_their_value(content: str, shown: str, tmp_path: Path, options: ParseOptions) -> None:
    assert text_of(read(sheet("S", row(content)), tmp_path, options)) == ["S", shown]


@pytest.mark.capability("format-ods")
def test_ods_sheets_are_read_in_order(tmp_path: Path, options: ParseOptions) -> None:
    prices = [row(cell("Part"), cell("Price"))] + [
        row(cell(f"P-{n}"), typed("float", str(n), f"{n}.00")) for n in (1, 2)
    ]
    body = (
        sheet(
            "Prices", row(cell("Price list"), EMPTY), *prices, row(EMPTY, attributes='table:number-rows-repeated="9"')
        )
        + sheet("Secret", row(cell("hidden")), style_name="off")
        + sheet("Empty", row(EMPTY, attributes='table:number-rows-repeated="1048576"'))
        + sheet("FAQ", row(cell("Question"), cell("Answer")), row(cell("Can I return late?"), cell("Yes, you can.")))
    )
    document = read(body, tmp_path, options)
    assert [(block.kind.value, block.sheet, block.text) for block in document.blocks] == [
        ("heading", 1, "Prices"),
        ("table", 1, "Price list\n| Part | Price |\n| --- | --- |\n| P-1 | 1.00 |\n| P-2 | 2.00 |"),
        ("heading", 4, "FAQ"),
        ("record", 4, "Question: Can I return late?\nAnswer: Yes, you can."),
    ]
    assert document.warnings == [ServiceWarning("hidden_sheets_not_read", "1 hidden sheet was not read.", 1)]


DOWN2 = 'table:number-rows-spanned="2"'


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([row(cell("A"), cell("B")), row(cell("x", DOWN2), cell("1")), row(COVERED, cell("2"))],
         ["| A | B |\n| --- | --- |\n| x | 1 |\n| x | 2 |"]),
        ([row(cell("Title", 'table:number-columns-spanned="2"'), COVERED), row(cell("A"), cell("B")),
          row(cell("a"), cell("b"))], ["Title\n| A | B |\n| --- | --- |\n| a | b |"]),
        ([row(cell("Name", 'table:number-columns-spanned="2"'), COVERED, cell("Age")),
          row(cell("Ada"), cell("Byron"), cell("36"))],
         ["| Name | Name | Age |\n| --- | --- | --- |\n| Ada | Byron | 36 |"]),
        ([row(cell("A"), cell("B"), cell("C")), row(cell("a"), EMPTY, cell("c")),
          row(cell("d"), '<table:table-cell table:number-columns-repeated="16382"/>')],
         ["| A | B | C |\n| --- | --- | --- |\n| a | | c |\n| d | | |"]),
        ([row(cell("A"), cell("B")), row(cell("x", 'table:number-columns-repeated="2"'),
                                        attributes='table:number-rows-repeated="2"')],
         ["| A | B |\n| --- | --- |\n| x | x |\n| x | x |"]),
        ([f"<table:table-header-rows>{row(cell('A'), cell('B'))}</table:table-header-rows><table:table-row-group>"
          f"{row(cell('a'), cell('b'))}</table:table-row-group>"], ["| A | B |\n| --- | --- |\n| a | b |"]),
    ],
)  # fmt: skip
def test_ods_cells_do_not_shift(rows: list[str], texts: list[str], tmp_path: Path, options: ParseOptions) -> None:
    assert text_of(read(sheet("S", *rows), tmp_path, options)) == ["S", *texts]


def test_ods_kinds_of_content_are_read_or_counted(tmp_path: Path, options: ParseOptions) -> None:
    shapes = (
        '<table:shapes><draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'
        '<draw:frame><draw:image xlink:href="gone.png"/></draw:frame></table:shapes>'
    )
    noted = f"<table:table-cell><office:annotation>{p('A remark.')}</office:annotation>{p('7')}</table:table-cell>"
    framed = (
        "<table:table-cell><draw:frame><draw:text-box>" + p("in a box") + "</draw:text-box></draw:frame>"
        '<draw:frame><draw:object xlink:href="./Object 2"/></draw:frame></table:table-cell>'
    )
    body = "<table:tracked-changes><table:cell-content-change><table:previous>" + p("old") + "</table:previous>"
    body += "</table:cell-content-change></table:tracked-changes>" + sheet("S", row(noted, framed), more=shapes)
    document = read(body, tmp_path, options, parts={"Object 1/content.xml": CHART, "Object 2/content.xml": MATH})
    assert text_of(document) == [
        "S", "7", "Sales\n| Year | EUR |\n| --- | --- |\n| 2024 | 7 |", "A remark.", "in a box", "x = 12/34",
    ]  # fmt: skip
    assert [(warning.code, warning.count) for warning in document.warnings] == [("images_not_read", 1)]


def test_ods_flat_file_is_read(tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "f"
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {NAMESPACES} office:mimetype="{SPREADSHEET}">'
        f"<office:body><office:spreadsheet>{sheet('S', row(cell('é')))}</office:spreadsheet></office:body>"
        "</office:document>",
        encoding="utf-8",
    )
    assert text_of(ods_parser.parse(path, options)) == ["S", "é"]


def test_ods_encrypted_file_is_refused(tmp_path: Path, options: ParseOptions) -> None:
    manifest = f"<manifest:manifest {NAMESPACES}><manifest:encryption-data/></manifest:manifest>"
    with pytest.raises(EncryptedFile):
        read("", tmp_path, options, parts={"META-INF/manifest.xml": manifest})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"<a/>", b"<a><b>", b"plain text"])
def test_ods_other_content_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        ods_parser.parse(path, options)


REPEATED = 'table:number-columns-repeated="16384"'


@pytest.mark.parametrize(
    "rows",
    [
        [row(cell("x", REPEATED), attributes='table:number-rows-repeated="1048576"')],
        [row(cell("x"), attributes='table:number-rows-repeated="999999999"')],
        [row(f"<table:table-cell {REPEATED.replace('16384', '16383')}/>", cell("far"))] * 200,
    ],
    ids=["cells", "rows", "far"],
)
def test_ods_repeated_cells_are_bounded(rows: list[str], tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(TextTooLong):
        read(sheet("S", *rows), tmp_path, options)


HOSTILE = {
    "merged": [row(cell("x", f'table:number-rows-spanned="999999" {REPEATED}'))]
    + [row(f"<table:covered-table-cell {REPEATED}/>")] * 20_000,
    "covered": [row(*[cell("x", 'table:number-rows-spanned="9"')] * 500)] + [row(COVERED * 500)] * 500,
    "many covered": [row(cell("x", 'table:number-rows-spanned="9"')), row(COVERED * 200_000)],
    "nested": [row("<table:table-cell><table:table><table:table-row>" * 60 + "</table:table-row></table:table>"
                   "</table:table-cell>" * 60)],
    "empty rows": ["<table:table-row/>"] * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_ods_hostile_file_is_document_or_typed_error(name: str, pool: ParserPool, tmp_path: Path) -> None:
    path = write(tmp_path / "f", sheet("S", *HOSTILE[name]), kind="spreadsheet")
    assert await end_of(path, pool) in {"ready", "no_text", "too_large", "corrupt"}


async def end_of(path: Path, pool: ParserPool) -> str:
    try:
        await pool.parse(path, SPREADSHEET)
    except IngestionError as error:
        return error.code
    return "ready"

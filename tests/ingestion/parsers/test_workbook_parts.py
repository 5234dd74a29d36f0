"""Parts of workbooks other than the values of cells: each kind of content is read, or named with its count."""

import io
import random
import zipfile
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import spreadsheets
from app.ingestion.parsers.formats.workbooks.rich_texts import read_rich_texts
from app.ingestion.parsers.formats.workbooks.sheet_parts import read_sheet_parts
from app.ingestion.parsers.formats.workbooks.sheet_scan import iter_row_details, scan_sheet
from app.ingestion.parsers.formats.workbooks.xls_workbook import read_xls_workbook
from app.ingestion.parsers.toolkit.ooxml import Package
from app.ingestion.types import ParsedDocument
from tests.ingestion.parsers.workbooks import LINKS, MAIN, PACKAGE_LINKS, sheet, worksheet, write

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
STYLES = f"""<styleSheet xmlns="{MAIN}"><numFmts count="3"><numFmt numFmtId="164" formatCode="00000"/>
<numFmt numFmtId="165" formatCode="#,##0.00 &quot;EUR&quot;"/><numFmt numFmtId="166" formatCode="dd.mm.yyyy"/></numFmts>
<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="9"/><xf numFmtId="165"/><xf numFmtId="166"/>
<xf numFmtId="46"/></cellXfs></styleSheet>"""


def rows(*cells: str) -> str:
    return f'<sheetData><row r="1"><c r="A1" t="str"><v>Key</v></c>{"".join(cells)}</row></sheetData>'


def parsed(
    directory: Path, options: ParseOptions, content: str, *, members: dict[str, str] | None = None
) -> ParsedDocument:
    """Parse a workbook of one sheet with these further members; members replace those of the workbook."""
    first = write(directory / "first.xlsx", {"S": content})
    path = directory / "book.xlsx"
    with zipfile.ZipFile(first) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            if name not in (members or {}):
                new.writestr(name, old.read(name))
        for name, text in (members or {}).items():
            new.writestr(name, text)
    return spreadsheets.parse(path, options)


def relationships(*items: tuple[str, str, str]) -> str:
    lines = [
        f'<Relationship Id="r{number}" Type="{LINKS}/{kind}" Target="{target}" TargetMode="{mode}"/>'
        for number, (kind, target, mode) in enumerate(items, start=1)
    ]
    return f'<Relationships xmlns="{PACKAGE_LINKS}">{"".join(lines)}</Relationships>'


def texts(document: ParsedDocument) -> str:
    return "\n".join(block.text for block in document.blocks)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('<c r="B1" s="1"><v>7</v></c>', "00007"),
        ('<c r="B1" s="2"><v>0.15</v></c>', "15%"),
        ('<c r="B1" s="3"><v>1234.5</v></c>', "1,234.50 EUR"),
        ('<c r="B1" s="4"><v>45366</v></c>', "15.03.2024"),
        ('<c r="B1" s="5"><v>1.5</v></c>', "36:00:00"),
        ("<c s='1' r='B1'><v>7</v></c>", "00007"),
        ('<c s="1"><v>7</v></c>', "00007"),
        ('<c r="B1" s="3"><f>A2*2</f><v>10</v></c>', "10.00 EUR"),
        ('<c r="B1" t="e"><f>1/0</f><v>#DIV/0!</v></c>', "#DIV/0!"),
        ('<c r="B1" t="e"><v>#N/A</v></c>', "#N/A"),
        (
            '<c r="B1" t="str"><f>HYPERLINK("https://example.org/a","Manual")</f><v>Manual</v></c>',
            "[Manual](https://example.org/a)",
        ),
        ('<c r="B1" s="99"><v>7</v></c>', "Key\n7"),
    ],
)  # fmt: skip
def test_workbook_cells_are_shown_as_formatted(cell: str, shown: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(tmp_path, options, worksheet(rows(cell)), members={"xl/styles.xml": STYLES})
    assert shown in texts(document)


def test_workbook_formulas_without_values_are_counted(tmp_path: Path, options: ParseOptions) -> None:
    cells = '<c r="B1"><f>SUM(A1:A2)</f></c><c r="C1"><f>1+1</f><v></v></c><c r="D1"><f>2</f><v>2</v></c>'
    document = parsed(tmp_path, options, worksheet(rows(cells)))
    assert [(warning.code, warning.count) for warning in document.warnings] == [("formulas_without_values", 2)]
    assert document.warnings[0].message == "2 formulas without a stored value were not read."


@pytest.mark.parametrize(
    ("merged", "grid", "table"),
    [
        ("B1:C1", [["Region", "Price", None], ["Europe", 1, 2]], "| Region | Price | Price |"),
        ("A2:A3", [["Region", "Plan"], ["Europe", "Pro"], [None, "Basic"]], "| Europe | Basic |"),
        ("A1:B1", [["Title", None], ["Region", "Plan"], ["Europe", "Pro"]], "Title\n| Region | Plan |"),
    ],
)
def test_workbook_merged_cells_are_repeated_unless_alone(
    merged: str, grid: list[list[str | int | None]], table: str, tmp_path: Path, options: ParseOptions
) -> None:
    document = parsed(tmp_path, options, sheet(grid, merged=merged))
    assert table in texts(document)


def test_workbook_comments_are_read(tmp_path: Path, options: ParseOptions) -> None:
    comments = (
        f'<comments xmlns="{MAIN}"><commentList><comment ref="A1"><text><r><t>Ask </t></r><r><t>Ada</t></r>'
        "</text>"
        "</comment>"
        '<comment ref="B1"><text><t>[Threaded comment] Your program is too old</t></text></comment></commentList>'
        "</comments>"
    )
    threads = (
        '<ThreadedComments xmlns="http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments">'
        '<threadedComment ref="B1" id="1"><text>Is this net?</text></threadedComment>'
        '<threadedComment ref="B1" id="2" parentId="1"><text>Yes, net.</text></threadedComment></ThreadedComments>'
    )
    links = relationships(("comments", "../comments1.xml", ""), ("threadedComment", "../threadedComments/t.xml", ""))
    members = {
        "xl/comments1.xml": comments,
        "xl/threadedComments/t.xml": threads,
        "xl/worksheets/_rels/sheet1.xml.rels": links,
    }
    document = parsed(tmp_path, options, worksheet(rows()), members=members)
    assert "Comment on A1: Ask Ada" in texts(document)
    assert "Comment on B1: Is this net? Yes, net." in texts(document)
    assert "too old" not in texts(document)


def test_workbook_links_values_headers_and_names_are_read(tmp_path: Path, options: ParseOptions) -> None:
    content = worksheet(
        rows('<c r="B1" t="str"><v>Spec</v></c>')
        + '<dataValidations><dataValidation type="list" sqref="B2"><formula1>"Small,Large"</formula1>'
        f'</dataValidation></dataValidations><hyperlinks><hyperlink ref="B1" xmlns:r="{LINKS}" r:id="r1"/></hyperlinks>'
        "<headerFooter><oddHeader>&amp;LConfidential&amp;RPage &amp;P</oddHeader></headerFooter>"
    )
    workbook = (
        f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
        '<definedNames><definedName name="VatRate">0.19</definedName><definedName name="Area">S!$A$1</definedName>'
        "</definedNames></workbook>"
    )
    links = relationships(("hyperlink", "https://example.org/spec", "External"))
    members = {"xl/worksheets/_rels/sheet1.xml.rels": links, "xl/workbook.xml": workbook}
    shown = texts(parsed(tmp_path, options, content, members=members))
    assert "[Spec](https://example.org/spec)" in shown
    assert "Allowed values of B2: Small, Large" in shown
    assert "Header: Confidential Page" in shown
    assert "VatRate: 0.19" in shown
    assert "Area" not in shown


def test_workbook_shapes_charts_and_images_are_read_or_counted(tmp_path: Path, options: ParseOptions) -> None:
    drawing = (
        f'<d:wsDr xmlns:d="{DRAWING}/spreadsheetDrawing" xmlns:a="{DRAWING}/main"><d:sp><d:txBody><a:p><a:r>'
        '<a:t>Call us</a:t></a:r></a:p></d:txBody></d:sp><d:pic><d:nvPicPr><d:cNvPr id="1" descr="Floor plan"/>'
        "</d:nvPicPr></d:pic>"
        '<d:pic><d:nvPicPr><d:cNvPr id="2"/></d:nvPicPr></d:pic></d:wsDr>'
    )
    chart = (
        f'<c:chartSpace xmlns:c="{DRAWING}/chart" xmlns:a="{DRAWING}/main"><c:chart><c:title><c:tx><c:rich><a:p><a:r>'
        "<a:t>Revenue</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea/></c:chart></c:chartSpace>"
    )
    members = {
        "xl/worksheets/_rels/sheet1.xml.rels": relationships(("drawing", "../drawings/drawing1.xml", "")),
        "xl/drawings/drawing1.xml": drawing,
        "xl/drawings/_rels/drawing1.xml.rels": relationships(("chart", "../charts/chart1.xml", "")),
        "xl/charts/chart1.xml": chart,
        "xl/embeddings/object1.bin": "x",
        "xl/externalLinks/externalLink1.xml": "<x/>",
        "xl/pivotCache/pivotCacheDefinition1.xml": "<x/>",
        "xl/pivotCache/pivotCacheRecords1.xml": "<x/>",
    }
    document = parsed(tmp_path, options, worksheet(rows()), members=members)
    assert "Call us\nPicture: Floor plan\nChart: Revenue" in texts(document)
    assert {warning.code: warning.count for warning in document.warnings} == {
        "images_not_read": 1,
        "embedded_documents_not_read": 1,
        "external_links_not_read": 1,
        "pivot_caches_not_read": 1,
    }


def test_workbook_macro_sheet_leaves_data_sheets(tmp_path: Path, options: ParseOptions) -> None:
    workbook = (
        f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets><sheet name="Macro" sheetId="2" r:id="m"/>'
        '<sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>'
    )
    links = (
        f'<Relationships xmlns="{PACKAGE_LINKS}"><Relationship Id="r1" Type="{LINKS}/worksheet" '
        'Target="worksheets/sheet1.xml"/>'
        '<Relationship Id="m" Type="http://schemas.microsoft.com/office/2006/relationships/xlMacrosheet" '
        'Target="macrosheets/sheet1.xml"/></Relationships>'
    )
    members = {
        "xl/workbook.xml": workbook, "xl/_rels/workbook.xml.rels": links, "xl/macrosheets/sheet1.xml": "<x/>",
    }  # fmt: skip
    document = parsed(tmp_path, options, sheet([["Bolt", 5]]), members=members)
    assert "Bolt\n5" in texts(document)
    assert [(warning.code, warning.message, warning.count) for warning in document.warnings] == [
        ("other_sheets_not_read", "1 macro sheet was not read.", 1)
    ]


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ('<r><t>10</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>6</t></r><r><t> cells</t></r>', "10⁶ cells"),
        ('<r><t>H</t></r><r><rPr><vertAlign val="subscript"/></rPr><t>2</t></r><r><t>O</t></r>', "H₂O"),
        ('<r><rPr><strike/></rPr><t>10 EUR </t></r><r><t>12 EUR</t></r>', "12 EUR"),
    ],
)  # fmt: skip
def test_read_rich_texts_marks_change_text(item: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "strings.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}"><si>{item}</si><si><t>plain</t></si></sst>')
    with zipfile.ZipFile(path) as archive:
        assert list(read_rich_texts(Package(archive)).values()) == [shown]


def test_workbook_member_names_without_case_and_with_backslashes_are_read(
    tmp_path: Path, options: ParseOptions
) -> None:
    first = write(tmp_path / "first.xlsx", {"S": worksheet(rows('<c r="B1" s="1"><v>7</v></c>'))})
    path = tmp_path / "odd.xlsx"
    with zipfile.ZipFile(first) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = STYLES.encode() if name.endswith("styles.xml") else old.read(name)
            new.writestr(name.lower().replace("/", "\\"), content)
    assert "00007" in texts(spreadsheets.parse(path, options))


def test_xls_formats_and_errors_are_read_as_in_xlsx(samples: Path, options: ParseOptions) -> None:
    old, new = (spreadsheets.parse(samples / f"workbook.{suffix}", options) for suffix in ("xls", "xlsx"))
    assert texts(old) == texts(new)
    assert "36:30 | #DIV/0!" in texts(old)


def test_xls_stream_name_in_capitals_is_read(samples: Path, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "capitals.xls"
    data = (samples / "workbook.xls").read_bytes()
    path.write_bytes(data.replace("Workbook".encode("utf-16-le"), "WORKBOOK".encode("utf-16-le")))
    assert "#DIV/0!" in texts(spreadsheets.parse(path, options))


def test_xls_damaged_records_raise_no_other_error(samples: Path, tmp_path: Path, options: ParseOptions) -> None:
    generator = random.Random(27)
    original = (samples / "workbook.xls").read_bytes()
    for _ in range(150):
        data = bytearray(original)
        for _ in range(20):
            data[generator.randrange(len(data))] = generator.randrange(256)
        assert all(isinstance(code, str) for code in read_xls_workbook(bytes(data)).formats)


def test_workbook_hostile_xml_takes_linear_time(tmp_path: Path) -> None:
    for piece in (
        b"<c ",
        b"<f>",
        b"<row><c><f>",
        b'<c r="A1" s="1">',
        b'<c t="e"><f>',
        b"<hyperlink ",
        b"</sheetData>",
    ):
        data = b"<sheetData>" + piece * (4_000_000 // len(piece))
        summaries = list(scan_sheet(io.BytesIO(data)))
        details = sum(1 for _ in iter_row_details(io.BytesIO(data), frozenset({1})))
        read_sheet_parts(empty_package(tmp_path), "/xl/sheet1.xml", summaries[-1].tail + piece * 100_000)
        assert details <= 1


def empty_package(directory: Path) -> Package:
    path = directory / "empty.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "")
    return Package(zipfile.ZipFile(path))

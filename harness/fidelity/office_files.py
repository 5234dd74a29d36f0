"""Cases of Office formats: Word, PowerPoint and Excel."""

import io
from collections.abc import Iterator

import xlsxwriter  # type: ignore[import-untyped]  # xlsxwriter ships no types

from harness.fidelity.cases import FidelityCase
from harness.hostile.zip_packages import (
    OFFICE,
    Members,
    build_cell,
    build_external_relationship,
    build_presentation,
    build_text_box,
    build_word_document,
    build_workbook,
    pack_zip,
)

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
WORD_2010 = "http://schemas.microsoft.com/office/word/2010/wordml"
FRACTION = (
    f'<m:oMath xmlns:m="{MATH}"><m:r><m:t>v=</m:t></m:r><m:f><m:num><m:r><m:t>56</m:t></m:r></m:num>'
    "<m:den><m:r><m:t>78</m:t></m:r></m:den></m:f></m:oMath>"
)


def _build_run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _build_paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def _build_row(*cells: str) -> str:
    return f"<w:tr>{''.join(cells)}</w:tr>"


def _build_cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{_build_paragraph(_build_run(text))}</w:tc>"


def _build_word(
    kind: str, name: str, body: str, *, links: str = "", warning_codes: tuple[str, ...] = (), **texts: tuple[str, ...]
) -> FidelityCase:
    data = pack_zip(
        build_word_document(_build_paragraph(_build_run("The guide of the plant.")) + body, extra_links=links)
    )
    return FidelityCase(kind, f"{name}.docx", data, warning_codes=warning_codes, **texts)


def iter_documents() -> Iterator[FidelityCase]:
    """Yield the cases of Word."""
    raised, lowered = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
    yield _build_word(
        "superscripts",
        "power",
        _build_paragraph(
            _build_run("10"), _build_run("-3", raised), _build_run(" bar, H"), _build_run("2", lowered), _build_run("O")
        ),
        has=("10⁻³ bar", "H₂O"),
    )
    yield _build_word(
        "superscripts",
        "letters",
        _build_paragraph(_build_run("x"), _build_run("k", raised)),
        any_of=("x^k", "xᵏ"),
        hasnot=("xk",),
    )
    yield _build_word("equations", "fraction", f"<w:p>{FRACTION}</w:p>", any_of=("56/78",), hasnot=("5678",))
    yield _build_word(
        "equations",
        "root",
        f'<w:p><m:oMath xmlns:m="{MATH}"><m:rad><m:deg/><m:e><m:r><m:t>49</m:t></m:r></m:e>'
        "</m:rad><m:r><m:t>7</m:t></m:r></m:oMath></w:p>",
        any_of=("√49", "√(49)"),
        hasnot=("497",),
    )
    ticked = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="1"/></w:checkBox></w:ffData>'
        "</w:fldChar></w:r><w:r><w:instrText> FORMCHECKBOX </w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    yield _build_word(
        "forms",
        "legacy",
        _build_paragraph(_build_run("Insured: "), ticked, _build_run(" yes")),
        any_of=("☒ yes", "☑ yes"),
    )
    control = (
        f'<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="{WORD_2010}"><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr>'
        f"<w:sdtContent>{_build_run('☒')}</w:sdtContent></w:sdt>"
    )
    yield _build_word("forms", "control", _build_paragraph(control, _build_run(" paid")), any_of=("☒ paid", "☑ paid"))
    tick = '<w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'
    yield _build_word(
        "symbols", "tick", _build_paragraph(_build_run("Backup: "), tick), any_of=("Backup: ✓", "Backup: ✔")
    )
    arrow = '<w:r><w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr><w:t>&#xF0A3;</w:t></w:r>'
    yield _build_word("symbols", "less", _build_paragraph(_build_run("x "), arrow, _build_run(" 5")), has=("x ≤ 5",))
    spanned = '<w:vMerge w:val="restart"/>'
    table = _build_row(_build_cell("Region"), _build_cell("Plan"), _build_cell("Price")) + _build_row(
        _build_cell("Asia", spanned), _build_cell("Basic"), _build_cell("5")
    )
    table += _build_row(_build_cell("", "<w:vMerge/>"), _build_cell("Max"), _build_cell("13"))
    yield _build_word("tables", "rows", f"<w:tbl>{table}</w:tbl>", any_of=("| Asia | Max | 13 |", "| | Max | 13 |"))
    wide = _build_row(_build_cell(""), _build_cell("2024", '<w:gridSpan w:val="2"/>')) + _build_row(
        _build_cell("City"), _build_cell("May"), _build_cell("June")
    )
    yield _build_word(
        "tables",
        "columns",
        f"<w:tbl>{wide}{_build_row(_build_cell('Rome'), _build_cell('11'), _build_cell('12'))}</w:tbl>",
        has=("| Rome | 11 | 12 |",),
    )
    lines = f"<w:tc>{_build_paragraph(_build_run('Mail'))}{_build_paragraph(_build_run('Phone'))}</w:tc>"
    yield _build_word(
        "tables",
        "lines",
        f"<w:tbl>{_build_row(_build_cell('Plan'), _build_cell('Help'))}{_build_row(_build_cell('Pro'), lines)}</w:tbl>",
        any_of=("Mail; Phone", "Mail Phone"),
        hasnot=("MailPhone",),
    )
    yield _build_word(
        "struck text",
        "deleted",
        _build_paragraph(
            f'<w:del w:id="1">{_build_run("x").replace("w:t", "w:delText")}</w:del>',
            _build_run("25 EUR", ""),
            _build_run(" 30 EUR", "<w:strike/>"),
        ),
        has=("25 EUR",),
        hasnot=("30 EUR",),
    )
    yield _build_word(
        "hidden content",
        "vanish",
        _build_paragraph(_build_run("Seen."), _build_run("Not seen at all.", "<w:vanish/>")),
        any_of=("Seen.",),
    )
    link = f'<w:hyperlink r:id="h" xmlns:r="{OFFICE}">{_build_run("help desk")}</w:hyperlink>'
    yield _build_word(
        "links",
        "address",
        _build_paragraph(_build_run("Ask the "), link),
        links=build_external_relationship("h", "hyperlink", "https://example.com/desk"),
        has=("https://example.com/desk", "help desk"),
    )


def _build_slide(kind: str, name: str, shapes: str, *, links: str = "", **texts: tuple[str, ...]) -> FidelityCase:
    return FidelityCase(kind, f"{name}.pptx", pack_zip(build_presentation(shapes, extra_links=links)), **texts)


def _build_text_runs(runs: str) -> str:
    return build_text_box("@").replace("<a:r><a:t>@</a:t></a:r>", runs)


def iter_presentations() -> Iterator[FidelityCase]:
    """Yield the cases of PowerPoint."""
    yield _build_slide(
        "superscripts",
        "power",
        _build_text_runs(
            "<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline='30000'/><a:t>7</a:t></a:r><a:r><a:t> cells</a:t></a:r>"
        ),
        has=("10⁷ cells",),
    )
    math = "http://schemas.microsoft.com/office/drawing/2010/main"
    yield _build_slide(
        "equations",
        "fraction",
        _build_text_runs(f"<a:r><a:t>Law: </a:t></a:r><a14:m xmlns:a14='{math}'>{FRACTION}</a14:m>"),
        any_of=("56/78",),
        hasnot=("5678",),
    )
    yield _build_slide(
        "links",
        "address",
        _build_text_runs("<a:r><a:rPr><a:hlinkClick r:id='h'/></a:rPr><a:t>help desk</a:t></a:r>"),
        links=build_external_relationship("h", "hyperlink", "https://example.com/desk"),
        has=("https://example.com/desk",),
    )
    image = (
        "<p:pic><p:nvPicPr><p:cNvPr id='5' name='p' descr='Valve B opens at 4 bar'/><p:cNvPicPr/><p:nvPr/>"
        "</p:nvPicPr><p:blipFill/><p:spPr/></p:pic>"
    )
    yield _build_slide(
        "alt texts", "picture", build_text_box("Valves") + image, has=("Valve B opens at 4 bar", "Valves")
    )
    unknown = "<p:contentPart xmlns:r='urn:x' r:id='none'/>"
    yield _build_slide(
        "damaged parts", "shape", build_text_box("Before") + unknown + build_text_box("After"), has=("Before", "After")
    )
    for extension, kind in (("ppsx", "slideshow"), ("potx", "template")):
        members = dict(build_presentation(build_text_box("Open until ten")))
        types = str(members["[Content_Types].xml"])
        members["[Content_Types].xml"] = types.replace("presentation.main+xml", f"{kind}.main+xml")
        yield FidelityCase("types", f"show.{extension}", pack_zip(members), has=("Open until ten",))


def _build_workbook(
    kind: str, name: str, rows: str, *, members: Members | None = None, **texts: tuple[str, ...]
) -> FidelityCase:
    return FidelityCase(kind, f"{name}.xlsx", pack_zip({**build_workbook(rows), **(members or {})}), **texts)


def iter_workbooks() -> Iterator[FidelityCase]:
    """Yield the cases of Excel."""
    head = f"<row r='1'>{build_cell('A1', 'Part')}{build_cell('B1', 'Price')}</row>"
    rows = head + f"<row r='2'>{build_cell('A2', 'Bolt')}<c r='B2'><v>12.5</v></c></row>"
    upper = {name.upper() if name.startswith("[") else name: data for name, data in build_workbook(rows).items()}
    yield FidelityCase("types", "upper.xlsx", pack_zip(upper), has=("Bolt",))
    slashes = {
        name.replace("/", "\\") if name.startswith("xl/") else name: data for name, data in build_workbook(rows).items()
    }
    yield FidelityCase("types", "slashes.xlsx", pack_zip(slashes), has=("Bolt",))
    formats = {
        "000000": (42, "000042"),
        "0.0%": (0.155, "15.5%"),
        '0.00 "CHF"': (9, "9.00 CHF"),
        "#,##0": (1234567, "1,234,567"),
        "yyyy-mm-dd": (45000, "2023-03-15"),
        "[h]:mm": (1.5, "36:00"),
        '"No. "0': (7, "No. 7"),
        "0.00E+00": (12345, "1.23E+04"),
        "# ?/?": (2.5, "2 1/2"),
        "(000) 000": (123456, "(123) 456"),
    }
    for number, (code, (value, shown)) in enumerate(formats.items(), 1):
        file = io.BytesIO()
        with xlsxwriter.Workbook(file) as book:
            sheet = book.add_worksheet()
            sheet.write_row(0, 0, ["Part", "Value"])
            sheet.write(1, 0, "Bolt")
            sheet.write_number(1, 1, value, book.add_format({"num_format": code}))
        yield FidelityCase("number formats", f"format_{number}.xlsx", file.getvalue(), has=("Bolt", shown))
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Part", "Price"])
        sheet.write_row(1, 0, ["Bolt", 5])
        sheet.write_comment("A2", "Only in packs of ten")
        sheet.write_url("A3", "https://example.com/nut", string="Nut")
        sheet.merge_range("A5:B5", "Prices without tax")
        sheet.insert_textbox("D1", "Call the depot first")
        chart = book.add_chart({"type": "column"})
        chart.add_series({"values": "=Sheet1!$B$2:$B$2"})
        chart.set_title({"name": "Prices by part"})
        sheet.insert_chart("D8", chart)
    yield FidelityCase(
        "sheet contents",
        "contents.xlsx",
        file.getvalue(),
        has=(
            "Bolt",
            "Nut",
            "Prices without tax",
            "Only in packs of ten",
            "https://example.com/nut",
            "Call the depot first",
            "Prices by part",
        ),
    )

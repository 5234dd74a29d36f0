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


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def _row(*cells: str) -> str:
    return f"<w:tr>{''.join(cells)}</w:tr>"


def _cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{_paragraph(_run(text))}</w:tc>"


def _word(
    kind: str, name: str, body: str, *, links: str = "", warning_codes: tuple[str, ...] = (), **texts: tuple[str, ...]
) -> FidelityCase:
    data = pack_zip(build_word_document(_paragraph(_run("The guide of the plant.")) + body, extra_links=links))
    return FidelityCase(kind, f"{name}.docx", data, warning_codes=warning_codes, **texts)


def iter_documents() -> Iterator[FidelityCase]:
    """Yield the cases of Word."""
    raised, lowered = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
    yield _word(
        "superscripts",
        "power",
        _paragraph(_run("10"), _run("-3", raised), _run(" bar, H"), _run("2", lowered), _run("O")),
        has=("10⁻³ bar", "H₂O"),
    )
    yield _word(
        "superscripts", "letters", _paragraph(_run("x"), _run("k", raised)), any_of=("x^k", "xᵏ"), hasnot=("xk",)
    )
    yield _word("equations", "fraction", f"<w:p>{FRACTION}</w:p>", any_of=("56/78",), hasnot=("5678",))
    yield _word(
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
    yield _word("forms", "legacy", _paragraph(_run("Insured: "), ticked, _run(" yes")), any_of=("☒ yes", "☑ yes"))
    control = (
        f'<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="{WORD_2010}"><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr>'
        f"<w:sdtContent>{_run('☒')}</w:sdtContent></w:sdt>"
    )
    yield _word("forms", "control", _paragraph(control, _run(" paid")), any_of=("☒ paid", "☑ paid"))
    tick = '<w:r><w:sym w:font="Wingdings" w:char="F0FC"/></w:r>'
    yield _word("symbols", "tick", _paragraph(_run("Backup: "), tick), any_of=("Backup: ✓", "Backup: ✔"))
    arrow = '<w:r><w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr><w:t>&#xF0A3;</w:t></w:r>'
    yield _word("symbols", "less", _paragraph(_run("x "), arrow, _run(" 5")), has=("x ≤ 5",))
    spanned = '<w:vMerge w:val="restart"/>'
    table = _row(_cell("Region"), _cell("Plan"), _cell("Price")) + _row(
        _cell("Asia", spanned), _cell("Basic"), _cell("5")
    )
    table += _row(_cell("", "<w:vMerge/>"), _cell("Max"), _cell("13"))
    yield _word("tables", "rows", f"<w:tbl>{table}</w:tbl>", any_of=("| Asia | Max | 13 |", "| | Max | 13 |"))
    wide = _row(_cell(""), _cell("2024", '<w:gridSpan w:val="2"/>')) + _row(_cell("City"), _cell("May"), _cell("June"))
    yield _word(
        "tables",
        "columns",
        f"<w:tbl>{wide}{_row(_cell('Rome'), _cell('11'), _cell('12'))}</w:tbl>",
        has=("| Rome | 11 | 12 |",),
    )
    lines = f"<w:tc>{_paragraph(_run('Mail'))}{_paragraph(_run('Phone'))}</w:tc>"
    yield _word(
        "tables",
        "lines",
        f"<w:tbl>{_row(_cell('Plan'), _cell('Help'))}{_row(_cell('Pro'), lines)}</w:tbl>",
        any_of=("Mail; Phone", "Mail Phone"),
        hasnot=("MailPhone",),
    )
    yield _word(
        "struck text",
        "deleted",
        _paragraph(
            f'<w:del w:id="1">{_run("x").replace("w:t", "w:delText")}</w:del>',
            _run("25 EUR", ""),
            _run(" 30 EUR", "<w:strike/>"),
        ),
        has=("25 EUR",),
        hasnot=("30 EUR",),
    )
    yield _word(
        "hidden content",
        "vanish",
        _paragraph(_run("Seen."), _run("Not seen at all.", "<w:vanish/>")),
        any_of=("Seen.",),
    )
    link = f'<w:hyperlink r:id="h" xmlns:r="{OFFICE}">{_run("help desk")}</w:hyperlink>'
    yield _word(
        "links",
        "address",
        _paragraph(_run("Ask the "), link),
        links=build_external_relationship("h", "hyperlink", "https://example.com/desk"),
        has=("https://example.com/desk", "help desk"),
    )


def _slide(kind: str, name: str, shapes: str, *, links: str = "", **texts: tuple[str, ...]) -> FidelityCase:
    return FidelityCase(kind, f"{name}.pptx", pack_zip(build_presentation(shapes, extra_links=links)), **texts)


def _text_runs(runs: str) -> str:
    return build_text_box("@").replace("<a:r><a:t>@</a:t></a:r>", runs)


def iter_presentations() -> Iterator[FidelityCase]:
    """Yield the cases of PowerPoint."""
    yield _slide(
        "superscripts",
        "power",
        _text_runs(
            "<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline='30000'/><a:t>7</a:t></a:r><a:r><a:t> cells</a:t></a:r>"
        ),
        has=("10⁷ cells",),
    )
    math = "http://schemas.microsoft.com/office/drawing/2010/main"
    yield _slide(
        "equations",
        "fraction",
        _text_runs(f"<a:r><a:t>Law: </a:t></a:r><a14:m xmlns:a14='{math}'>{FRACTION}</a14:m>"),
        any_of=("56/78",),
        hasnot=("5678",),
    )
    yield _slide(
        "links",
        "address",
        _text_runs("<a:r><a:rPr><a:hlinkClick r:id='h'/></a:rPr><a:t>help desk</a:t></a:r>"),
        links=build_external_relationship("h", "hyperlink", "https://example.com/desk"),
        has=("https://example.com/desk",),
    )
    image = (
        "<p:pic><p:nvPicPr><p:cNvPr id='5' name='p' descr='Valve B opens at 4 bar'/><p:cNvPicPr/><p:nvPr/>"
        "</p:nvPicPr><p:blipFill/><p:spPr/></p:pic>"
    )
    yield _slide("alt texts", "picture", build_text_box("Valves") + image, has=("Valve B opens at 4 bar", "Valves"))
    unknown = "<p:contentPart xmlns:r='urn:x' r:id='none'/>"
    yield _slide(
        "damaged parts", "shape", build_text_box("Before") + unknown + build_text_box("After"), has=("Before", "After")
    )
    for extension, kind in (("ppsx", "slideshow"), ("potx", "template")):
        members = dict(build_presentation(build_text_box("Open until ten")))
        types = str(members["[Content_Types].xml"])
        members["[Content_Types].xml"] = types.replace("presentation.main+xml", f"{kind}.main+xml")
        yield FidelityCase("types", f"show.{extension}", pack_zip(members), has=("Open until ten",))


def _workbook(
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

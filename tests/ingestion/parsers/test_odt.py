"""OpenDocument texts: characters, lists, tables, shapes, notes, unread content, and hostile files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from app.documents.upload.file_signatures import HEAD_BYTES, sniff_media_type
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf import odt_parser
from app.ingestion.types import CorruptFile, EncryptedFile, IngestionError, ParsedDocument
from tests.ingestion.parsers.images import png
from tests.ingestion.parsers.opendocument import (
    COVERED,
    NAMESPACES,
    PRESENTATION,
    SPREADSHEET,
    TEXT,
    cell,
    p,
    row,
    style,
    table,
    write,
)
from tests.ingestion.parsers.word import shown, text_of

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

STYLES = (
    style("up", "text", 'style:text-position="super 58%"')
    + style("high", "text", 'style:text-position="33% 58%"')
    + style("down", "text", 'style:text-position="sub 58%"')
    + style("hidden", "text", 'text:display="none"')
    + style("struck", "text", 'style:text-line-through-style="solid"')
    + style("child", "text", "", 'style:parent-style-name="struck"')
    + style("plain", "text", 'style:text-position="0% 100%" style:text-line-through-style="none"')
    + style("ticks", "text", 'style:font-name="Wingdings"')
    + style("secret", "paragraph", 'text:display="none"')
    + style("Title", "paragraph")
    + style("Named", "paragraph", "", 'style:display-name="x" style:parent-style-name="Title"')
    + style("Loop", "paragraph", "", 'style:parent-style-name="Loop"')
    + style("Chapter", "paragraph", "", 'style:default-outline-level="2"')
    + '<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1"'
    ' style:num-suffix="."/><text:list-level-style-number text:level="2" style:num-format="a" style:num-suffix=")"/>'
    '<text:list-level-style-number text:level="3" style:num-format="1" text:display-levels="3"/></text:list-style>'
    '<text:list-style style:name="B"><text:list-level-style-bullet text:level="1" text:bullet-char="•"/>'
    "</text:list-style>"
)


def span(name: str, text: str) -> str:
    return f'<text:span text:style-name="{name}">{text}</text:span>'


def items(*contents: str, attributes: str = 'text:style-name="L"') -> str:
    inner = "".join(one if one.startswith("<text:list-item ") else f"<text:list-item>{one}</text:list-item>"
                    for one in contents)  # fmt: skip
    return f"<text:list {attributes}>{inner}</text:list>"


def frame(inner: str, description: str = "") -> str:
    return f"<draw:frame>{inner}<svg:desc>{description}</svg:desc></draw:frame>"


def read(body: str, tmp_path: Path, options: ParseOptions, **more: object) -> ParsedDocument:
    return odt_parser.parse(write(tmp_path / "f", body, styles=STYLES, **more), options)  # type: ignore[arg-type]


def codes(document: ParsedDocument) -> dict[str, int | None]:
    return {str(warning.code): warning.count for warning in document.warnings}


@pytest.mark.parametrize(
    ("paragraph", "text"),
    [
        (f"10{span('up', '6')} cells, H{span('down', '2')}O", "10⁶ cells, H₂O"),
        (f"10{span('high', '-3')} m{span('up', span('plain', 'x'))}", "10⁻³ mx"),
        (f"price {span('struck', '10 EUR ')}{span('child', '11 ')}{span('struck', span('plain', '12'))} EUR",
         "price 12 EUR"),
        (f"kept {span('hidden', 'not this ')}text", "kept text"),
        (f"{span('ticks', chr(0xFC))} yes {span('ticks', chr(0xF0FB))} no", "✓ yes ✗ no"),
        ('a<text:s text:c="3"/>b<text:tab/>c<text:line-break/>d', "a b c\nd"),
        ('see <text:a xlink:href="https://example.org/a">our <text:span>site</text:span></text:a>.',
         "see [our site](https://example.org/a)."),
        ('<text:a xlink:href="#part">part</text:a> and <text:a xlink:href="mailto:a@b.org">Ann</text:a>',
         "part and [Ann](mailto:a@b.org)"),
        ("<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>かん</text:ruby-text></text:ruby>"
         "<text:ruby><text:ruby-base>字</text:ruby-base><text:ruby-text>じ</text:ruby-text></text:ruby>",
         "漢字(かんじ)"),
        ("page <text:page-number>3</text:page-number> of <text:date>1 May</text:date>", "page 3 of 1 May"),
        ('<text:bookmark text:name="x"/>a<text:change-start/>new<text:change-end/><text:soft-page-break/>b', "anewb"),
        ("<text:meta><text:span>inside</text:span></text:meta> tail", "inside tail"),
    ],
)  # fmt: skip
def test_odt_characters_are_read(paragraph: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert "\n".join(text_of(read(p(paragraph), tmp_path, options))) == text


@pytest.mark.capability("format-odt")
def test_odt_headings_and_lists_are_read(tmp_path: Path, options: ParseOptions) -> None:
    outline = (
        '<office:styles><text:outline-style><text:outline-level-style text:level="1" style:num-format="I"'
        ' style:num-suffix="."/><text:outline-level-style text:level="2" style:num-format="1"'
        ' text:display-levels="2"/></text:outline-style></office:styles>'
    )
    body = (
        p("Report", "Named")
        + '<text:h text:outline-level="1">First</text:h><text:h text:outline-level="2">Part</text:h>'
        + '<text:h text:outline-level="3">Deep</text:h>'
        + '<text:h text:outline-level="1" text:is-list-header="true">No</text:h>'
        + p("Chapter", "Chapter")
        + p("Loop", "Loop")
        + items(p("one"), p("two") + p("more of two") + items(p("inner"), items(p("deep"), attributes="")), p("three"))
        + items(p("four"), attributes='text:style-name="L" text:continue-numbering="true"')
        + items('<text:list-item text:start-value="9">' + p("nine") + "</text:list-item>", p("ten"))
        + items(p("bullet"), attributes='text:style-name="B"')
        + items(p("unknown"), attributes="")
        + "<text:list><text:list-header>" + p("no label") + "</text:list-header></text:list>"
    )  # fmt: skip
    assert shown(read(body, tmp_path, options, common=outline)) == [
        ("heading", 1, "Report"),
        ("heading", 1, "I. First"), ("heading", 2, "I.1 Part"), ("heading", 3, "Deep"), ("heading", 1, "No"),
        ("heading", 2, "Chapter"), ("paragraph", 0, "Loop"),
        ("list_item", 0, "1. one"), ("list_item", 0, "2. two"), ("list_item", 0, "more of two"),
        ("list_item", 0, "a) inner"), ("list_item", 0, "2.b.1 deep"), ("list_item", 0, "3. three"),
        ("list_item", 0, "4. four"), ("list_item", 0, "9. nine"), ("list_item", 0, "10. ten"),
        ("list_item", 0, "- bullet"), ("list_item", 0, "- unknown"), ("list_item", 0, "no label"),
    ]  # fmt: skip


SPAN2 = 'table:number-columns-spanned="2"'
DOWN2 = 'table:number-rows-spanned="2"'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (table(row(cell("A"), cell("B")), row(cell("1"), cell("2"))), "| A | B |\n| --- | --- |\n| 1 | 2 |"),
        (
            table(row(cell("Name", SPAN2), COVERED, cell("Age")), row(cell("Ada"), cell("Lovelace"), cell("36"))),
            "| Name | Name | Age |\n| --- | --- | --- |\n| Ada | Lovelace | 36 |",
        ),
        (
            table(row(cell("Region"), cell("Plan")), row(cell("Europe", DOWN2), cell("Basic")),
                  row(COVERED, cell("Pro"))),
            "| Region | Plan |\n| --- | --- |\n| Europe | Basic |\n| Europe | Pro |",
        ),
        (
            table(row(cell("1"), cell("2")), header=row(cell("2024", SPAN2), COVERED) + row(cell("Q1"), cell("Q2"))),
            "2024\n| Q1 | Q2 |\n| --- | --- |\n| 1 | 2 |",
        ),
        (
            table(row(cell("1"), cell("2"), cell("3")),
                  header=row(cell("Plan", DOWN2), cell("2024", SPAN2), COVERED) + row(COVERED, cell("Q1"), cell("Q2"))),
            "| Plan | 2024 Q1 | 2024 Q2 |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        (
            table(row(cell("A"), cell("B")), row(cell(p("one") + p("two")), cell(items(p("x"), p("y"))))),
            "| A | B |\n| --- | --- |\n| one two | 1. x; 2. y |",
        ),
        (
            table(row(cell("A"), cell("B"), cell("C")),
                  row(cell("x", 'table:number-columns-repeated="2"'), "<table:table-cell/>"),
                  row("<table:table-cell/>", cell("2"), cell("3"), attributes='table:number-rows-repeated="2"')),
            "| A | B | C |\n| --- | --- | --- |\n| x | x | |\n| | 2 | 3 |\n| | 2 | 3 |",
        ),
        (
            table(row(cell("A"), cell("B")), row(cell(table(row(cell("in"), cell("ner")), row(cell("3"), cell("4")))),
                                                 cell("b"))),
            "| A | B |\n| --- | --- |\n| in ner; 3 4 | b |",
        ),
        (
            p("Table <text:sequence>1</text:sequence>: Prices")
            + table(row(cell("A"), cell("B")), row(cell("a|b"), cell("2"))),
            "Table 1: Prices\n| A | B |\n| --- | --- |\n| a\\|b | 2 |",
        ),
        (
            "<table:table><table:title>Costs</table:title><table:table-row-group>"
            + row(cell("A"), cell("B")) + row(cell("1"), cell("2")) + "</table:table-row-group></table:table>",
            "Costs\n| A | B |\n| --- | --- |\n| 1 | 2 |",
        ),
    ],
)  # fmt: skip
def test_odt_tables_do_not_shift(body: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert text_of(read(p("before") + body + p("after"), tmp_path, options)) == ["before", text, "after"]


MATH = (
    '<math:math xmlns:math="http://www.w3.org/1998/Math/MathML"><math:mi>x</math:mi><math:mo>=</math:mo>'
    "<math:mfrac><math:mn>12</math:mn><math:mn>34</math:mn></math:mfrac></math:math>"
)
CHART = (
    f"<office:document-content {NAMESPACES}><office:body><office:chart><chart:chart><chart:title>"
    + p("Sales") + "</chart:title>" + table(row(cell("Year"), cell("EUR")), row(cell("2024"), cell("7")))
    + "</chart:chart></office:chart></office:body></office:document-content>"
)  # fmt: skip


def test_odt_notes_shapes_and_margins_are_read(tmp_path: Path, options: ParseOptions) -> None:
    note = (
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>'
        + p("First note.") + "</text:note-body></text:note>"
    )  # fmt: skip
    comment = "<office:annotation><dc:creator>Ann</dc:creator>" + p("A remark.") + "</office:annotation>"
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion>" + p("deleted") + "</text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        + p(f"cells 10{note} end{comment}")
        + p("box" + frame("<draw:text-box>" + p("In the box") + "</draw:text-box>", "A red valve"))
        + p("Law: " + frame('<draw:object xlink:href="./Object 1"/><draw:image xlink:href="x"/>') + " ok")
        + p(frame('<draw:object xlink:href="./Object 2"/>'))
        + "<draw:g><draw:custom-shape>" + p("in a shape") + "</draw:custom-shape><draw:rect>" + p("in a box")
        + "</draw:rect></draw:g><text:section>" + p("in a section") + "</text:section>"
    )  # fmt: skip
    margins = (
        "<office:master-styles><style:master-page><style:header>" + p("Acme") + "</style:header><style:footer>"
        + p("Page <text:page-number>1</text:page-number>") + p("Internal") + "</style:footer></style:master-page>"
        "<style:master-page><style:header>" + p("Acme") + "</style:header></style:master-page></office:master-styles>"
    )  # fmt: skip
    parts = {"Object 1/content.xml": MATH, "Object 2/content.xml": CHART}
    document = read(body, tmp_path, options, common=margins, parts=parts, title="The title")
    assert shown(document) == [
        ("paragraph", 0, "Acme"),
        ("paragraph", 0, "cells 10 ¹ end"),
        ("note", 0, "1 First note."),
        ("note", 0, "A remark."),
        ("paragraph", 0, "box"),
        ("paragraph", 0, "A red valve"),
        ("paragraph", 0, "In the box"),
        ("paragraph", 0, "Law: x = 12/34 ok"),
        ("table", 0, "Sales\n| Year | EUR |\n| --- | --- |\n| 2024 | 7 |"),
        ("paragraph", 0, "in a shape"),
        ("paragraph", 0, "in a box"),
        ("paragraph", 0, "in a section"),
        ("paragraph", 0, "Internal"),
    ]
    assert (document.title, document.warnings) == ("The title", [])


def test_odt_form_controls_are_read(tmp_path: Path, options: ParseOptions) -> None:
    forms = (
        '<office:forms><form:form><form:checkbox form:id="c1" form:label="yes" form:current-state="checked"/>'
        '<form:checkbox form:id="c2" form:label="no"/><form:textarea form:id="c3" form:current-value="Hamburg"/>'
        '<form:listbox form:id="c4"><form:option form:label="A"/><form:option form:label="B" form:selected="true"/>'
        '</form:listbox><form:radio form:id="c5" form:label="r" form:selected="true"/></form:form></office:forms>'
    )
    controls = " ".join(f'<draw:control draw:control="c{number}"/>' for number in range(1, 7))
    assert text_of(read(forms + p(f"Insured: {controls} end"), tmp_path, options)) == [
        "Insured: ☒ yes ☐ no Hamburg B ☒ r end"
    ]


def test_odt_kinds_of_content_are_read_or_counted(tmp_path: Path, options: ParseOptions) -> None:
    hidden = '<text:section text:display="none">' + p("three hidden words") + "</text:section>"
    body = (
        p(frame('<draw:image xlink:href="Pictures/a.png"/>') + frame('<draw:object xlink:href="./Gone"/>'))
        + p(frame('<draw:object-ole xlink:href="./Ole"/>') + frame("<draw:plugin/>") + "seen")
        + p("two words", "secret")
        + p(f"{span('hidden', 'one')} {span('struck', 'old price')}<text:hidden-text>x y</text:hidden-text>"
            f"{span('ticks', chr(0xF01F + 0x20))}")
        + hidden
        + "<text:table-of-content><text:index-body>" + p("Chapter 1") + p("Chapter 2") + "</text:index-body>"
        "</text:table-of-content>"
    )  # fmt: skip
    document = read(body, tmp_path, options)
    assert "seen" in text_of(document)
    assert codes(document) == {
        "images_not_read": 1,
        "contents_entries_removed": 2,
        "embedded_documents_not_read": 2,
        "hidden_text_not_read": 8,
        "media_not_read": 1,
        "struck_text_not_read": 2,
    }


def test_odt_images_are_returned_on_request(tmp_path: Path) -> None:
    options = ParseOptions(None, max_pages=9, max_characters=10_000, needs_images=True)
    body = p("a" + frame('<draw:image xlink:href="Pictures/a.png"/>') + frame('<draw:image xlink:href="gone"/>'))
    parts = {"Pictures/a.png": png(Image.new("RGB", (80, 80), "blue"))}
    document = read(body, tmp_path, options, parts=parts)
    assert len(document.images) == 1
    assert document.warnings[0].message == "1 image was not read."


def test_odt_flat_file_is_read(tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "f"
    path.write_text(
        f'<?xml version="1.0"?><office:document {NAMESPACES} office:mimetype="{TEXT}"><office:meta><dc:title>Tables'
        f"</dc:title></office:meta><office:automatic-styles>{STYLES}</office:automatic-styles><office:body>"
        f"<office:text>{p('10' + span('up', '6'))}</office:text></office:body></office:document>",
        encoding="utf-8",
    )
    document = odt_parser.parse(path, options)
    assert (text_of(document), document.title) == (["10⁶"], "Tables")
    head = path.read_bytes()[:HEAD_BYTES]
    assert sniff_media_type(head, path, filename="a.xml", declared=None) == TEXT


@pytest.mark.parametrize(
    ("mimetype", "parts", "expected"),
    [
        (TEXT, {}, TEXT),
        (f"{TEXT}-template", {}, TEXT),
        (f"{TEXT}-master", {}, TEXT),
        (f"{SPREADSHEET}-template", {}, SPREADSHEET),
        (f"{PRESENTATION}-template", {}, PRESENTATION),
        (None, {"META-INF/manifest.xml": f'<m:file-entry m:media-type="{TEXT}-template" m:full-path="/"/>'}, TEXT),
        (None, {"META-INF/manifest.xml": f'<m:file-entry m:full-path="a" m:media-type="{TEXT}"/>'}, "application/zip"),
    ],
)
def test_open_document_type_is_recognized(
    mimetype: str | None, parts: dict[str, str], expected: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "f", p("x"), mimetype=mimetype, parts=parts)
    head = path.read_bytes()[:HEAD_BYTES]
    assert sniff_media_type(head, path, filename="a.docx", declared=None) == expected


def test_odt_encrypted_file_is_refused(tmp_path: Path, options: ParseOptions) -> None:
    manifest = (
        f'<manifest:manifest {NAMESPACES}><manifest:file-entry manifest:full-path="content.xml">'
        "<manifest:encryption-data/></manifest:file-entry></manifest:manifest>"
    )
    with pytest.raises(EncryptedFile):
        read(p("x"), tmp_path, options, parts={"META-INF/manifest.xml": manifest})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"<a/>", b"<office:document", b"plain text"])
def test_odt_other_content_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        odt_parser.parse(path, options)


def nest(opening: str, closing: str, count: int) -> str:
    return opening * count + closing * count


HOSTILE = {
    "nested spans": p(nest("<text:span>", "</text:span>", 200)),
    "too many nested spans": p(nest("<text:span>", "</text:span>", 5000)),
    "nested lists": nest("<text:list><text:list-item>", "</text:list-item></text:list>", 110),
    "nested tables": nest("<table:table><table:table-row><table:table-cell>",
                          "</table:table-cell></table:table-row></table:table>", 70),
    "nested notes": nest("<text:p>x<text:note><text:note-body>", "</text:note-body></text:note></text:p>", 70),
    "nested boxes": nest("<draw:frame><draw:text-box>", "</draw:text-box></draw:frame>", 110),
    "repeated cells": table(row(cell("x", 'table:number-columns-repeated="999999999"'),
                                attributes='table:number-rows-repeated="999999999"')),
    "spans": table(*[row(cell("x", 'table:number-rows-spanned="99999" table:number-columns-spanned="99999"'))] * 3000),
    "many cells": table(row(*[cell("")] * 100_000)),
    "spaces": p('<text:s text:c="999999999"/>' * 1000),
    "many styles": "".join(p("x", f"s{number}") for number in range(20_000)),
    "links": p('<text:a xlink:href="http://a">' * 100 + "</text:a>" * 100),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_odt_hostile_file_is_document_or_typed_error(name: str, pool: ParserPool, tmp_path: Path) -> None:
    assert await end_of(write(tmp_path / "f", HOSTILE[name]), pool) in {"ready", "no_text", "too_large", "corrupt"}


async def end_of(path: Path, pool: ParserPool) -> str:
    try:
        await pool.parse(path, TEXT)
    except IngestionError as error:
        return error.code
    return "ready"

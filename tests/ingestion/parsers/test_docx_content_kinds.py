"""Word: each kind of content is read, or a warning has its count."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from tests.ingestion.parsers.test_docx import CHART, DIAGRAM
from tests.ingestion.parsers.word import (
    LINKS,
    box,
    cell,
    formatted,
    links,
    p,
    paragraph,
    part,
    plain,
    run,
    style,
    styles,
    t,
    table,
    write,
)
from tests.ingestion.parsers.word import field as field_mark


@dataclass(frozen=True)
class WordContent:
    """A document with one kind of content, and the text and the warning that it must give."""

    body: str
    texts: tuple[str, ...] = ()
    warning: tuple[str, int] | None = None
    missing: tuple[str, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    extra_links: str = ""


def refer(kind: str) -> str:
    return paragraph(plain("text"), run(f'<w:{kind}Reference w:id="2"/>'))


def margin(kind: str) -> str:
    return p("body") + f'<w:sectPr><w:{kind}Reference r:id="{kind}1"/></w:sectPr>'


def result(code: str, text: str) -> str:
    instruction = run(f"<w:instrText>{code}</w:instrText>")
    return paragraph(field_mark("begin"), instruction, field_mark("separate"), plain(text), field_mark("end"))


def embedded(program: str) -> str:
    content = f'<w:object><v:shape><v:imagedata/></v:shape><o:OLEObject ProgID="{program}"/></w:object>'
    return paragraph(plain("text"), run(content))


def part_links(kind: str, name: str) -> str:
    return links([("x", kind, name)]).partition(">")[2][: -len("</Relationships>")]


WEB = f'<Relationship Id="web" Type="{LINKS}/hyperlink" Target="https://example.org/a" TargetMode="External"/>'
AXES = CHART.replace(
    "</c:barChart>", "</c:barChart><c:valAx><c:title><a:p><a:r><a:t>Cars per year</a:t></a:r></a:p></c:title></c:valAx>"
)
LINES = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in ("one", "two"))
CANVAS = f"<w:drawing><a:graphic>{LINES}</a:graphic></w:drawing>"
NEWER_CHART = "http://schemas.microsoft.com/office/drawing/2014/chartex"

KINDS = {
    "comment": WordContent(
        refer("comment"),
        ("remark",),
        parts={"comments": part("w:comments", f'<w:comment w:id="2">{p("remark")}</w:comment>')},
    ),
    "footnote": WordContent(
        refer("footnote"),
        ("note",),
        parts={"footnotes": part("w:footnotes", f'<w:footnote w:id="2">{p("note")}</w:footnote>')},
    ),
    "endnote": WordContent(
        refer("endnote"),
        ("note",),
        parts={"endnotes": part("w:endnotes", f'<w:endnote w:id="2">{p("note")}</w:endnote>')},
    ),
    "comment on a footnote": WordContent(
        refer("footnote"),
        ("note", "remark"),
        parts={
            "footnotes": part("w:footnotes", f'<w:footnote w:id="2">{p("note")}{refer("comment")}</w:footnote>'),
            "comments": part("w:comments", f'<w:comment w:id="2">{p("remark")}</w:comment>'),
        },
    ),
    "inserted text": WordContent(paragraph(f"<w:ins>{plain('new')}</w:ins>"), ("new",)),
    "deleted text": WordContent(
        paragraph(plain("a"), "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"), ("a",), missing=("old",)
    ),
    "hidden text": WordContent(
        paragraph(plain("a"), formatted("secret", "<w:vanish/>")), ("a",), ("hidden_text_not_read", 1), ("secret",)
    ),
    "struck text": WordContent(
        paragraph(plain("a"), formatted("10 EUR", "<w:strike/>")), ("a",), ("struck_text_not_read", 2), ("EUR",)
    ),
    "text box": WordContent(paragraph(plain("a"), run(box("boxed"))), ("a", "boxed")),
    "text box in a group of shapes": WordContent(
        paragraph(
            run(f"<w:pict><v:group><v:shape><v:textbox>{box('old box')}</v:textbox></v:shape></v:group></w:pict>")
        ),
        ("old box",),
    ),
    "canvas": WordContent(paragraph(run(CANVAS)), ("one", "two"), missing=("onetwo",)),
    "frame and drop capital": WordContent(p("L", "<w:framePr w:dropCap='drop'/>") + p("orem"), ("L", "orem")),
    "chart": WordContent(
        paragraph(run('<c:chart r:id="chart1"/>')), ("Fleet", "Cars", "East", "Cars per year"), parts={"chart1": AXES}
    ),
    "chart of a newer format": WordContent(
        paragraph(
            plain("a"),
            run(f'<w:drawing><cx:chart xmlns:cx="{NEWER_CHART}" r:id="x"/></w:drawing>'),
        ),
        ("a",),
        ("images_not_read", 1),
    ),
    "SmartArt": WordContent(
        paragraph(run('<dgm:relIds r:dm="diagramData1"/>')), ("Book", "Drive"), parts={"diagramData1": DIAGRAM}
    ),
    "header": WordContent(
        margin("header"), ("Northwind Ltd", "body"), parts={"header1": part("w:hdr", p("Northwind Ltd"))}
    ),
    "footer": WordContent(
        margin("footer"), ("Call +49 30 1234567",), parts={"footer1": part("w:ftr", p("Call +49 30 1234567"))}
    ),
    "watermark": WordContent(
        margin("header"),
        ("DRAFT",),
        parts={"header1": part("w:hdr", paragraph(run("<v:shape><v:textpath string='DRAFT'/></v:shape>")))},
    ),
    "image": WordContent(
        paragraph(plain("a"), run("<w:drawing><pic:pic/></w:drawing>")), ("a",), ("images_not_read", 1)
    ),
    "image in a header": WordContent(
        margin("header"),
        ("body",),
        ("images_not_read", 1),
        parts={"header1": part("w:hdr", paragraph(run("<w:drawing><pic:pic/></w:drawing>")))},
    ),
    "alternative text": WordContent(
        paragraph(run('<w:drawing><wp:inline><wp:docPr descr="Red wire to L1"/></wp:inline></w:drawing>')),
        ("Red wire to L1",),
    ),
    "alternative text of an old image": WordContent(
        paragraph(run('<w:pict><v:shape alt="Red wire to L1"><v:imagedata/></v:shape></w:pict>')),
        ("Red wire to L1",),
        ("images_not_read", 1),
    ),
    "embedded workbook": WordContent(embedded("Excel.Sheet.12"), ("text",), ("embedded_documents_not_read", 1)),
    "old equation": WordContent(embedded("Equation.3"), ("text",), ("equations_not_read", 1)),
    "form control": WordContent(
        paragraph(plain("a"), run('<w:object><v:shape><v:imagedata/></v:shape><w:control w:name="x"/></w:object>')),
        ("a",),
        ("controls_not_read", 1),
    ),
    "sub-document": WordContent(p("a") + paragraph('<w:subDoc r:id="x"/>'), ("a",), ("embedded_documents_not_read", 1)),
    "ink": WordContent(paragraph(plain("a"), run('<w:contentPart r:id="x"/>')), ("a",), ("shapes_not_read", 1)),
    "online video": WordContent(
        paragraph(plain("a"), run('<w:drawing><wp15:webVideoPr xmlns:wp15="urn:x"/></w:drawing>')),
        ("a",),
        ("media_not_read", 1),
    ),
    "embedded HTML": WordContent(
        '<w:altChunk r:id="x"/>',
        ("In HTML",),
        parts={"word/c.html": "<p>In HTML</p>"},
        extra_links=part_links("aFChunk", "c.html"),
    ),
    "embedded text": WordContent(
        '<w:altChunk r:id="x"/>',
        ("In a text file",),
        parts={"word/c.txt": "In a text file"},
        extra_links=part_links("aFChunk", "c.txt"),
    ),
    "embedded rich text": WordContent(
        p("a") + '<w:altChunk r:id="x"/>',
        ("a",),
        ("embedded_documents_not_read", 1),
        parts={"word/c.rtf": "x"},
        extra_links=part_links("aFChunk", "c.rtf"),
    ),
    "field result": WordContent(result("REF price", "12 EUR"), ("12 EUR",), missing=("REF",)),
    "table of contents": WordContent(
        p("Fuel\t3", style("TOC1")) + p("Fuel", style("Heading1")) + p("a"),
        ("Fuel", "a"),
        ("contents_entries_removed", 1),
        parts=styles('<w:style w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>'),
    ),
    "link": WordContent(
        paragraph(f'<w:hyperlink r:id="web">{plain("terms")}</w:hyperlink>'),
        ("[terms](https://example.org/a)",),
        extra_links=WEB,
    ),
    "bookmark": WordContent(
        paragraph('<w:bookmarkStart w:id="0" w:name="secret"/>', plain("a"), '<w:bookmarkEnd w:id="0"/>'),
        ("a",),
        missing=("secret",),
    ),
    "smart tag": WordContent(paragraph(f'<w:smartTag w:element="City">{plain("Hamburg")}</w:smartTag>'), ("Hamburg",)),
    "custom XML": WordContent(f'<w:customXml w:element="x">{p("in custom XML")}</w:customXml>', ("in custom XML",)),
    "direction": WordContent(paragraph(f'<w:bdo w:val="rtl">{plain("עברית")}</w:bdo>'), ("עברית",)),
    "equation": WordContent(paragraph("<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>"), ("E=mc",)),
    "symbol": WordContent(paragraph(run('<w:sym w:font="Wingdings" w:char="F0FC"/>')), ("✓",)),
    "unknown symbol": WordContent(paragraph(plain("a"), run('<w:sym w:font="Houses" w:char="F0FC"/>')), ("a", "✓")),
    "ruby": WordContent(
        paragraph(f"<w:ruby><w:rt>{run(t('かんじ'))}</w:rt><w:rubyBase>{run(t('漢字'))}</w:rubyBase></w:ruby>"),
        ("漢字(かんじ)",),
    ),
    "table": WordContent(table([cell(p("a")), cell(p("b"))], [cell(p("c")), cell(p("d"))]), ("| c | d |",)),
    "empty form field": WordContent(
        p("a") + f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{p('hint')}</w:sdtContent></w:sdt>",
        ("a",),
        ("prompts_not_read", 1),
        ("hint",),
    ),
    "damaged part": WordContent(p("a"), ("a",), ("damaged_parts_not_read", 1), parts={"comments": "<w:comments"}),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_docx_kind_of_content_is_read_or_counted(kind: WordContent, tmp_path: Path, options: ParseOptions) -> None:
    path = write(tmp_path / "test.docx", kind.body, kind.parts, extra_links=kind.extra_links)
    document = docx_parser.parse(path, options)
    text = "\n".join(block.text for block in document.blocks)
    assert [expected for expected in kind.texts if expected not in text] == []
    assert [unexpected for unexpected in kind.missing if unexpected in text] == []
    assert [(warning.code, warning.count) for warning in document.warnings] == ([kind.warning] if kind.warning else [])

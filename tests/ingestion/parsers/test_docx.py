"""Word: text in every place, in reading order, and omitted parts."""

from pathlib import Path

import docx as python_docx
import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.docx import docx_parser
from app.warnings import ServiceWarning
from tests.ingestion.parsers.word import box, cell, field, links, p, part, run, shown, style, t, table, text_of, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.docx"


def test_docx_written_by_python_docx_is_read(path: Path, samples: Path, options: ParseOptions) -> None:
    written = python_docx.Document()
    written.add_heading("Rental terms", 0)
    written.add_heading("Fuel", 1)
    paragraph = written.add_paragraph("Return it ")
    paragraph.add_run("full").bold = True
    written.add_comment(paragraph.runs, text="Says who?", author="A. Reader")
    written.add_paragraph("petrol", style="List Bullet")
    for word in ("first", "second"):
        written.add_paragraph(word, style="List Number")
    grid = written.add_table(3, 3)
    for row in range(3):
        for column in range(3):
            grid.cell(row, column).text = f"r{row}c{column}"
    grid.cell(0, 0).merge(grid.cell(0, 1)).text = "wide"
    grid.cell(1, 2).merge(grid.cell(2, 2)).text = "tall"
    written.add_picture(str(samples / "photo.png"))
    written.sections[0].header.paragraphs[0].text = "Northwind"
    written.sections[0].footer.paragraphs[0].text = "Page 3 of 10"
    written.save(str(path))
    document = docx_parser.parse(path, options)
    assert (document.title, document.page_count) == ("Rental terms", None)
    assert document.warnings == [ServiceWarning("images_not_read", "1 image was not read.", 1)]
    assert shown(document) == [
        ("paragraph", 0, "Northwind"),
        ("heading", 1, "Rental terms"),
        ("heading", 1, "Fuel"),
        ("paragraph", 0, "Return it full"),
        ("note", 0, "Says who?"),
        ("list_item", 0, "- petrol"),
        ("list_item", 0, "1. first"),
        ("list_item", 0, "2. second"),
        ("table", 0, "| wide | wide | r0c2 |\n| --- | --- | --- |\n| r1c0 | r1c1 | tall |\n| r2c0 | r2c1 | tall |"),
    ]


CODE = run("<w:instrText> REF secret </w:instrText>")
PICTURE = "<w:drawing><a:graphic><pic:pic/></a:graphic></w:drawing>"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (run(t("a"), "<w:tab/>", t("b"), "<w:br/>", t("c"), "<w:cr/>", t("d")), "a b\nc\nd"),
        (run(t("co"), "<w:softHyphen/>", t("op"), "<w:noBreakHyphen/>", t("up\u00adper")), "coop-upper"),
        (f'<w:hyperlink r:id="x">{run(t("linked"))}</w:hyperlink>', "linked"),
        (f"<w:ins>{run(t('new'))}</w:ins><w:del>{run('<w:delText>old</w:delText>', t('gone'))}</w:del>", "new"),
        (f"<w:moveFrom>{run(t('from'))}</w:moveFrom><w:moveTo>{run(t('to'))}</w:moveTo>", "to"),
        (field("begin") + CODE + field("separate") + run(t("result")) + field("end") + run(t("!")), "result!"),
        (field("begin") + CODE + run(t("in code")) + field("end") + run(t("after")), "after"),
        (
            field("begin") + field("begin") + CODE + field("separate") + run(t("inner")) + field("end") + CODE
            + field("separate") + run(t("outer")) + field("end"),
            "outer",
        ),
        (field("begin") + CODE + run(t("never ended")), "never ended"),
        (field("end") + field("separate") + run(t("stray")), "stray"),
        (f'<w:fldSimple w:instr="AUTHOR">{run(t("simple"))}</w:fldSimple>', "simple"),
        (f"<w:sdt><w:sdtContent>{run(t('control'))}</w:sdtContent></w:sdt>", "control"),
        (
            f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{run(t('hint'))}</w:sdtContent></w:sdt>"
            + run(t("x")),
            "x",
        ),
        (run("<w:rPr><w:vanish/></w:rPr>", t("hidden")) + run(t("seen")), "seen"),
        (run('<w:rPr><w:vanish w:val="0"/></w:rPr>', t("seen")), "seen"),
        ("<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>", "E=mc"),
        (f"<w:ruby><w:rt>{run(t('kan'))}</w:rt><w:rubyBase>{run(t('漢'))}</w:rubyBase></w:ruby>", "漢(kan)"),
        (run("<v:shape><v:textpath string='DRAFT'/></v:shape>"), "DRAFT"),
        (f"<w:unknown><w:more>{run(t('kept'))}</w:more></w:unknown>", "kept"),
    ],
)  # fmt: skip
def test_docx_running_text_is_read(content: str, text: str, path: Path, options: ParseOptions) -> None:
    assert text_of(docx_parser.parse(write(path, f"<w:p>{content}</w:p>"), options)) == [text]


def alternatives(content: str) -> str:
    return f"<mc:AlternateContent>{content}</mc:AlternateContent>"


def test_docx_text_boxes_follow_their_paragraph_once(path: Path, options: ParseOptions) -> None:
    both = alternatives(
        f"<mc:Choice Requires='wps'>{box('boxed')}</mc:Choice><mc:Fallback>{box('boxed')}</mc:Fallback>"
    )
    only_fallback = alternatives(f"<mc:Fallback>{box('old')}</mc:Fallback>")
    body = f"<w:p>{run(t('before'), both)}{run(t(' and after'))}</w:p>"
    body += f"<w:p>{run(only_fallback)}</w:p><w:p>{run('<mc:AlternateContent/>', t('end'))}</w:p>"
    assert text_of(docx_parser.parse(write(path, body), options)) == ["before and after", "boxed", "old", "end"]


def test_docx_deleted_paragraph_mark_joins_paragraphs(path: Path, options: ParseOptions) -> None:
    body = p("one ", "<w:rPr><w:del/></w:rPr>") + p("two") + p("three", "<w:rPr><w:del/></w:rPr>")
    assert text_of(docx_parser.parse(write(path, body), options)) == ["one two", "three"]


def test_docx_tables_are_read(path: Path, options: ParseOptions) -> None:
    nested = table([cell(p("n1")), cell(p("n2"))], [cell(p("n3")), cell(p("n4"))])
    deleted = "<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p><w:r><w:t>gone</w:t></w:r></w:p></w:tc></w:tr>"
    nested = nested.replace("</w:tbl>", deleted + "</w:tbl>")
    held = f"<w:sdt><w:sdtContent><w:tr>{cell(p('held'))}{cell(p('too'))}</w:tr></w:sdtContent></w:sdt>"
    data = table(
        [cell(p("wide"), '<w:gridSpan w:val="2"/>'), cell(p("c"))],
        [cell(p("tall"), '<w:vMerge w:val="restart"/>'), cell(p("1") + p("2")), cell(p("in") + nested)],
        [cell(p("unseen"), "<w:vMerge/>"), cell(p("huge"), '<w:gridSpan w:val="999999999"/>')],
    )
    data = data.removesuffix("</w:tbl>") + deleted + held + "</w:tbl>"
    lines = docx_parser.parse(write(path, data), options).blocks[0].text.split("\n")
    assert [line.rstrip("| ") for line in (lines[0], *lines[2:])] == [
        "| wide | wide | c",
        "| tall | 1 2 | in; n1 n2; n3 n4",
        "| tall | huge | huge",
        "| held | too",
    ]


def test_docx_layout_tables_are_read_as_text(path: Path, options: ParseOptions) -> None:
    one_row = table([cell(p("left", style("Heading1")) + p("a")), cell(p("right"))])
    one_column = table([cell(p("top"))], [cell(p("bottom"))])
    sections = table([cell(p("Skills", style("Heading2")) + p("Sailing")), cell(p("b"))], [cell(p("c")), cell(p("d"))])
    document = docx_parser.parse(write(path, one_row + one_column + sections), options)
    assert shown(document) == [
        ("heading", 1, "left"),
        *(("paragraph", 0, text) for text in ("a", "right", "top", "bottom")),
        ("heading", 2, "Skills"),
        *(("paragraph", 0, text) for text in ("Sailing", "b", "c", "d")),
    ]


def test_docx_notes_follow_their_reference(path: Path, options: ParseOptions) -> None:
    def refer(kind: str, number: int) -> str:
        return f'<w:{kind}Reference w:id="{number}"/>'

    body = f"<w:p>{run(t('text'), refer('footnote', 2), refer('endnote', 1), refer('footnote', 9))}</w:p>"
    body += f"<w:p>{run(t('next'), refer('footnote', 2))}</w:p>"
    body += table([cell(f"<w:p>{run(t('a'), refer('comment', 0))}</w:p>"), cell(p("b"))], [cell(p("c"))] * 2)
    parts = {
        "footnotes": part(
            "w:footnotes",
            f'<w:footnote w:id="0" w:type="separator">{p("line")}</w:footnote>'
            f'<w:footnote w:id="2">{p("one")}{p("two")}<w:p>{run(box("three"))}</w:p></w:footnote>',
        ),
        "endnotes": part("w:endnotes", f'<w:endnote w:id="1">{p("end")}</w:endnote>'),
        "comments": part("w:comments", f'<w:comment w:id="0" w:author="A">{p("remark")}</w:comment>'),
    }
    document = docx_parser.parse(write(path, body, parts), options)
    assert [(kind, text) for kind, _, text in shown(document)] == [
        ("paragraph", "text"),
        ("note", "one\ntwo\nthree"),
        ("note", "end"),
        ("paragraph", "next"),
        ("table", "| a | b |\n| --- | --- |\n| c | c |"),
        ("note", "remark"),
    ]


def test_docx_headers_and_footers_appear_once_without_page_numbers(path: Path, options: ParseOptions) -> None:
    def section(*margins: str) -> str:
        references = "".join(f'<w:{name.rstrip("12")}Reference r:id="{name}"/>' for name in margins)
        return f"<w:p><w:pPr><w:sectPr>{references}</w:sectPr></w:pPr></w:p>"

    parts = {
        "header1": part("w:hdr", p("Northwind") + p("Seite 2 von 9") + p("- iv -")),
        "header2": part("w:hdr", p("Northwind") + table([cell(p("Draft")), cell(p("2"))])),
        "footer1": part("w:ftr", p("Call +49 30 1234567") + p("3") + p("第 1 页 共 9 页")),
    }
    body = p("body") + section("header1", "footer1") + p("more") + section("header1", "header2", "header9", "footer1")
    document = docx_parser.parse(write(path, body, parts), options)
    assert text_of(document) == ["Northwind\nDraft", "body", "more", "Call +49 30 1234567"]


CHART = part(
    "c:chartSpace",
    "<c:chart><c:title><a:p><a:r><a:t>Fleet</a:t></a:r></a:p></c:title><c:plotArea><c:barChart><c:ser>"
    "<c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Cars</c:v></c:pt></c:strCache></c:strRef></c:tx>"
    "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>007</c:v></c:pt><c:pt idx='2'><c:v>East</c:v></c:pt></c:strCache>"
    "</c:strRef></c:cat><c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>4.2999999999999998</c:v></c:pt>"
    "<c:pt idx='1'><c:v>1234567</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:barChart></c:plotArea>"
    "</c:chart>",
)
DIAGRAM = part(
    "dgm:dataModel",
    "<dgm:ptLst><dgm:pt><dgm:t><a:p><a:r><a:t>Book</a:t></a:r></a:p></dgm:t></dgm:pt>"
    "<dgm:pt type='pres'><dgm:t><a:p><a:r><a:t>Book</a:t></a:r></a:p></dgm:t></dgm:pt>"
    "<dgm:pt><dgm:t><a:p><a:r><a:t>Drive</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst>",
)


def test_docx_charts_and_diagrams_are_read_and_images_counted(path: Path, options: ParseOptions) -> None:
    chart = '<w:drawing><c:chart r:id="chart1"/></w:drawing>'
    diagram = '<w:drawing><dgm:relIds r:dm="diagramData1" r:lo="x"/></w:drawing>'
    either = alternatives(f"<mc:Choice>{PICTURE}</mc:Choice><mc:Fallback><v:imagedata/></mc:Fallback>")
    body = f"<w:p>{run(chart, diagram, PICTURE, either)}</w:p>"
    body += table([cell(f"<w:p>{run('<w:object><v:imagedata/></w:object>')}</w:p>"), cell(p("a"))], [cell(p("b"))] * 2)
    document = docx_parser.parse(write(path, body, {"chart1": CHART, "diagramData1": DIAGRAM}), options)
    assert [(kind, text) for kind, _, text in shown(document)] == [
        ("paragraph", "Fleet"),
        ("table", "| | Cars |\n| --- | --- |\n| 007 | 4.3 |\n| | 1234567 |\n| East | |"),
        ("list_item", "Book"),
        ("list_item", "Drive"),
        ("table", "| | a |\n| --- | --- |\n| b | b |"),
    ]
    assert document.warnings == [ServiceWarning("images_not_read", "3 images were not read.", 3)]


def test_docx_embedded_documents_are_read_or_counted(path: Path, options: ParseOptions) -> None:
    body = "".join(f'<w:altChunk r:id="{name}"/>' for name in ("h", "o", "nothing")) + p("end")
    targets = links([("h", "aFChunk", "chunk.html"), ("o", "aFChunk", "chunk.rtf")]).partition(">")[2][:-16]
    write(path, body, {"word/chunk.html": "<h2>In HTML</h2>", "word/chunk.rtf": "x"}, extra_links=targets)
    document = docx_parser.parse(path, options)
    assert text_of(document) == ["In HTML", "end"]
    assert document.warnings == [
        ServiceWarning("embedded_documents_not_read", "2 embedded documents were not read.", 2)
    ]

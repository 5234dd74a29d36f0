"""PowerPoint: each kind of content is read, or a warning has its count. One bad shape does not fail a slide."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.warnings import ServiceWarning
from tests.ingestion.parsers.slides import (
    Link,
    frame,
    image_shape,
    line,
    list_warnings,
    read_slides,
    shape,
    slide_cell,
    slide_part,
    slide_table,
    text_run,
    write_slides,
)
from tests.ingestion.parsers.test_docx import CHART, DIAGRAM


@dataclass(frozen=True)
class SlideContent:
    """Slides with one kind of content, and the texts and the warning that they must give."""

    slides: tuple[str, ...]
    texts: tuple[str, ...]
    warning: tuple[str, int | None] | None = None
    targets: tuple[Link, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    extension: str = ""


def text(content: str, top: int = 0, placeholder: str = "") -> str:
    return shape(line(text_run(content)), top=top, placeholder=placeholder)


def placeholder(kind: str, content: str) -> str:
    return text(content, placeholder=f'<p:ph type="{kind}"/>')


PLACE = '<p:grpSpPr><a:xfrm><a:off x="0" y="0"/></a:xfrm></p:grpSpPr>'


def group(content: str, name: str = "/>") -> str:
    return f'<p:grpSp><p:nvGrpSpPr><p:cNvPr id="9"{name}<p:nvPr/></p:nvGrpSpPr>{PLACE}{content}</p:grpSp>'


def part_of(content: str) -> str:
    return f"<p:cSld><p:spTree>{content}</p:spTree></p:cSld>"


ALT = ' descr="Red wire to L1"/>'
NOTES = slide_part("p:notes", part_of(placeholder("body", "Say hello") + placeholder("sldNum", "77") + text("aside")))
LAYOUT = slide_part("p:sldLayout", part_of(placeholder("title", "Click to edit") + text("Layout text")))
OLD_COMMENTS = slide_part("p:cmLst", "<p:cm><p:text>Too long</p:text></p:cm>")
NEW_COMMENTS = slide_part("n:cmLst", f"<n:cm><n:txBody>{line(text_run('Too short'))}</n:txBody></n:cm>").replace(
    "xmlns:p=", 'xmlns:n="http://schemas.microsoft.com/office/powerpoint/2018/8/main" xmlns:p=', 1
)
SECTION_SLIDES = '<p14:sldIdLst><p14:sldId id="256"/></p14:sldIdLst>'
SECTION = f'<p14:sectionLst xmlns:p14="urn:x"><p14:section name="{{}}">{SECTION_SLIDES}</p14:section></p14:sectionLst>'

KINDS = {
    "title": SlideContent((placeholder("ctrTitle", "Terms"),), ("Terms",)),
    "text": SlideContent((text("a"),), ("a",)),
    "footer and date": SlideContent(
        (placeholder("ftr", "Northwind") + placeholder("dt", "1 May"),), ("Northwind", "1 May")
    ),
    "slide number": SlideContent((text("a") + placeholder("sldNum", "7"),), ("a",)),
    "group of shapes": SlideContent((group(text("inner") + group(text("innermost"))),), ("inner", "innermost")),
    "alternative of shapes": SlideContent(
        (
            f"<mc:AlternateContent><mc:Choice>{text('new')}</mc:Choice><mc:Fallback>{text('old')}</mc:Fallback></mc:AlternateContent>",
        ),
        ("new",),
    ),
    "table": SlideContent(
        (slide_table([slide_cell("a"), slide_cell("b")], [slide_cell("c"), slide_cell("d")]),),
        ("| a | b |\n| --- | --- |\n| c | d |",),
    ),
    "chart": SlideContent(
        (frame('<c:chart r:id="c"/>'),),
        ("Fleet", "| | Cars |\n| --- | --- |\n| 007 | 4.3 |\n| | 1234567 |\n| East | |"),
        targets=(("c", "chart", "chart.xml"),),
        parts={"ppt/chart.xml": CHART},
    ),
    "chart of a newer format": SlideContent(
        (text("a") + frame('<x:chart xmlns:x="urn:x"/>'),), ("a",), ("images_not_read", 1)
    ),
    "SmartArt": SlideContent(
        (frame('<dgm:relIds r:dm="d"/>'),),
        ("Book", "Drive"),
        targets=(("d", "diagramData", "d.xml"),),
        parts={"ppt/d.xml": DIAGRAM},
    ),
    "image": SlideContent((text("a") + image_shape(),), ("a",), ("images_not_read", 1)),
    "alternative text of an image": SlideContent((image_shape(ALT),), ("Red wire to L1",), ("images_not_read", 1)),
    "alternative text of a shape": SlideContent((shape(name=ALT),), ("Red wire to L1",)),
    "alternative text of a group": SlideContent((group(text("a"), ALT),), ("Red wire to L1", "a")),
    "alternative text of a chart": SlideContent(
        (frame('<dgm:relIds r:dm="d"/>', ALT),),
        ("Red wire to L1", "Book", "Drive"),
        targets=(("d", "diagramData", "d.xml"),),
        parts={"ppt/d.xml": DIAGRAM},
    ),
    "video": SlideContent(
        (text("a") + image_shape(properties='<a:videoFile r:link="v"/>'),), ("a",), ("media_not_read", 1)
    ),
    "sound": SlideContent(
        (text("a") + image_shape(properties='<a:audioFile r:link="v"/>'),), ("a",), ("media_not_read", 1)
    ),
    "embedded workbook": SlideContent(
        (text("a") + frame('<p:oleObj progId="Excel.Sheet.12"/>'),), ("a",), ("embedded_documents_not_read", 1)
    ),
    "old equation": SlideContent(
        (text("a") + frame('<p:oleObj progId="Equation.3"/>'),), ("a",), ("equations_not_read", 1)
    ),
    "ink": SlideContent((text("a") + '<p:contentPart r:id="x"/>',), ("a",), ("shapes_not_read", 1)),
    "unknown shape with text": SlideContent(
        (text("a") + f"<p:newShape><p:txBody>{line(text_run('new text'))}</p:txBody></p:newShape>",), ("new text", "a")
    ),
    "unknown shape without text": SlideContent((text("a") + "<p:newShape/>",), ("a",), ("shapes_not_read", 1)),
    "line": SlideContent((text("a") + "<p:cxnSp><p:nvCxnSpPr><p:cNvPr id='3'/></p:nvCxnSpPr></p:cxnSp>",), ("a",)),
    "speaker notes": SlideContent(
        (text("a"),), ("a", "Say hello\naside"), targets=(("n", "notesSlide", "n.xml"),), parts={"ppt/n.xml": NOTES}
    ),
    "older comment": SlideContent(
        (text("a"),), ("a", "Too long"), targets=(("k", "comments", "k.xml"),), parts={"ppt/k.xml": OLD_COMMENTS}
    ),
    "newer comment": SlideContent(
        (text("a"),), ("a", "Too short"), targets=(("k", "comments", "k.xml"),), parts={"ppt/k.xml": NEW_COMMENTS}
    ),
    "damaged comments": SlideContent(
        (text("a"),),
        ("a",),
        ("damaged_parts_not_read", 1),
        targets=(("k", "comments", "k.xml"),),
        parts={"ppt/k.xml": "<p"},
    ),
    "layout": SlideContent((text("a"),), ("a",), targets=(("l", "slideLayout", "l.xml"),), parts={"ppt/l.xml": LAYOUT}),
    "hidden slide": SlideContent(
        (text("a"), f'<p:sld show="0">{part_of(text("b"))}</p:sld>'), ("a", "b"), ("hidden_slides_read", None)
    ),
    "section": SlideContent(
        (placeholder("title", "Terms") + text("a"),), ("Terms", "Pricing", "a"), extension=SECTION.format("Pricing")
    ),
    "default section": SlideContent((text("a"),), ("a",), extension=SECTION.format("Default Section")),
    "animation": SlideContent((f"<p:sld>{part_of(text('a'))}<p:timing><p:tnLst/></p:timing></p:sld>",), ("a",)),
    "equation": SlideContent((shape(line("<a14:m><m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath></a14:m>")),), ("E=mc",)),
    "unknown symbol": SlideContent(
        (text("a") + shape(line(text_run("\uf0ff", '<a:sym typeface="Wingdings"/>'))),), ("a",), ("symbols_not_read", 1)
    ),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_pptx_kind_of_content_is_read_or_counted(kind: SlideContent, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "test.pptx"
    write_slides(path, *kind.slides, targets=kind.targets, parts=kind.parts, extension=kind.extension)
    document = pptx_parser.parse(path, options)
    assert [block.text for block in document.blocks] == list(kind.texts)
    assert list_warnings(document) == ([kind.warning] if kind.warning else [])


BAD_SHAPES = {
    "chart without a part": frame('<c:chart r:id="missing"/>'),
    "chart with a damaged part": frame('<c:chart r:id="bad"/>'),
    "chart without values": frame('<c:chart r:id="empty"/>'),
    "SmartArt without a part": frame('<dgm:relIds r:dm="missing"/>'),
    "ink": "<p:contentPart/>",
    "unknown shape": '<x:future xmlns:x="urn:future"/>',
}


@pytest.mark.parametrize("bad", BAD_SHAPES.values(), ids=BAD_SHAPES.keys())
def test_pptx_bad_shape_leaves_the_other_shapes(bad: str, tmp_path: Path, options: ParseOptions) -> None:
    targets = (("bad", "chart", "bad.xml"), ("empty", "chart", "empty.xml"))
    parts = {"ppt/bad.xml": "<c:chart", "ppt/empty.xml": slide_part("c:chartSpace", "<c:chart/>")}
    slide = text("before") + bad + group(bad + text("inner")) + text("after")
    path = write_slides(tmp_path / "test.pptx", slide, text("next"), targets=targets, parts=parts)
    document = pptx_parser.parse(path, options)
    assert [block.text for block in document.blocks] == ["before", "inner", "after", "next"]
    assert list_warnings(document) == [("shapes_not_read", 2)]


def test_pptx_unread_shapes_are_named_by_kind(tmp_path: Path, options: ParseOptions) -> None:
    slide = text("a") + "<p:contentPart/>" * 2 + frame('<c:chart r:id="missing"/>')
    document = pptx_parser.parse(write_slides(tmp_path / "test.pptx", slide), options)
    assert document.warnings == [ServiceWarning("shapes_not_read", "3 shapes were not read: 2 ink, 1 graphic.", 3)]


def test_pptx_missing_slide_leaves_the_other_slides(tmp_path: Path, options: ParseOptions) -> None:
    path = write_slides(tmp_path / "test.pptx", text("a"), "<p:sld", text("c"))
    document = pptx_parser.parse(path, options)
    assert [(block.text, block.slide) for block in document.blocks] == [("a", 1), ("c", 3)]
    assert document.warnings == [ServiceWarning("slides_partly_read", "1 of 3 slides is damaged and was not read.", 1)]


def test_pptx_placeholders_are_read_at_the_positions_of_their_layout(tmp_path: Path, options: ParseOptions) -> None:
    def inheriting(index: int, content: str) -> str:
        inner = f'<p:nvSpPr><p:cNvPr id="1"/><p:nvPr><p:ph idx="{index}"/></p:nvPr></p:nvSpPr><p:spPr/>'
        return f"<p:sp>{inner}<p:txBody>{line(text_run(content))}</p:txBody></p:sp>"

    layout = part_of(
        "".join(text("", top=top, placeholder=f'<p:ph idx="{index}"/>') for index, top in ((1, 900), (2, 100)))
    )
    slide = inheriting(1, "low") + text("middle", top=500) + inheriting(2, "high") + inheriting(9, "elsewhere")
    path = write_slides(
        tmp_path / "test.pptx",
        slide,
        targets=[("l", "slideLayout", "l.xml")],
        parts={"ppt/l.xml": slide_part("p:sldLayout", layout)},
    )
    assert read_slides(path, options) == ["high", "middle", "low", "elsewhere"]

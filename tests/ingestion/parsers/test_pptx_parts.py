"""PowerPoint: text in separate parts, alternatives, and content that is only visible."""

from pathlib import Path
from typing import Any

import pytest
from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.opc.package import Part
from pptx.opc.packuri import PackURI
from pptx.util import Inches

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.ingestion.types import ParsedDocument
from app.warnings import ServiceWarning

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
PRESENTATION = "http://schemas.openxmlformats.org/presentationml/2006/main"
COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
MODERN = "http://schemas.microsoft.com/office/powerpoint/2018/8/main"
NAMESPACES = f'xmlns:a="{DRAWING}" xmlns:dgm="{DIAGRAM}" xmlns:p="{PRESENTATION}" xmlns:r="{LINKS}" xmlns:n="{MODERN}"'

LEGACY_COMMENTS = f"<p:cmLst {NAMESPACES}><p:cm><p:text>Too long</p:text></p:cm><p:cm><p:text/></p:cm></p:cmLst>"
MODERN_COMMENTS = (
    f"<n:cmLst {NAMESPACES}><n:cm><n:replyLst><n:reply><n:txBody><a:p><a:r><a:t>No,</a:t></a:r></a:p><a:p><a:r><a:t>it "
    "isn't</a:t></a:r></a:p></n:txBody></n:reply></n:replyLst><n:txBody><a:bodyPr/><a:p><a:r><a:t>Too </a:t></a:r><a:r>"
    "<a:t>short</a:t></a:r></a:p></n:txBody></n:cm></n:cmLst>"
)
SMART_ART = (
    f"<dgm:dataModel {NAMESPACES}><dgm:ptLst><dgm:pt type='doc'><dgm:t><a:p/></dgm:t></dgm:pt><dgm:pt><dgm:t><a:p><a:r>"
    "<a:t>Book</a:t></a:r></a:p><a:p><a:r><a:t>Drive</a:t></a:r></a:p></dgm:t></dgm:pt><dgm:pt type='sibTrans'><dgm:t>"
    "<a:p><a:r><a:t>arrow</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst></dgm:dataModel>"
)


@pytest.fixture
def presentation() -> Any:
    """Presentation of one slide with a title."""
    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Title"
    return presentation


def attach(slide: Any, word: str, kind: str, content: str) -> str:
    """Add a part to the slide; return the id of the relationship."""
    uri = PackURI(f"/ppt/parts/{word}{len(slide.part.rels)}.xml")
    part = Part(uri, "application/xml", slide.part.package, content.encode())
    return str(slide.part.relate_to(part, kind))


def insert(slide: Any, markup: str) -> None:
    slide.shapes.element.append(etree.fromstring(markup))


def frame(uri: str, content: str = "") -> str:
    return (
        f"<p:graphicFrame {NAMESPACES}><p:nvGraphicFramePr><p:cNvPr id='90' name='x'/><p:cNvGraphicFramePr/><p:nvPr/>"
        f"</p:nvGraphicFramePr><p:xfrm><a:off x='0' y='9999999'/><a:ext cx='1' cy='1'/></p:xfrm><a:graphic>"
        f"<a:graphicData uri='{uri}'>{content}</a:graphicData></a:graphic></p:graphicFrame>"
    )


def shape(number: int, text: str) -> str:
    return (
        f"<p:sp {NAMESPACES}><p:nvSpPr><p:cNvPr id='{number}' name='x'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>"
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def read(presentation: Any, path: Path, options: ParseOptions) -> ParsedDocument:
    presentation.save(str(path / "test.pptx"))
    return pptx_parser.parse(path / "test.pptx", options)


def shown(document: ParsedDocument) -> list[tuple[str, str, int | None]]:
    return [(block.kind.value, block.text, block.slide) for block in document.blocks]


def test_pptx_comments_of_both_kinds_are_notes(presentation: Any, tmp_path: Path, options: ParseOptions) -> None:
    slide = presentation.slides[0]
    attach(slide, "comment", f"{LINKS}/comments", LEGACY_COMMENTS)
    attach(slide, "comment", "http://schemas.microsoft.com/office/2018/10/relationships/comments", MODERN_COMMENTS)
    slide.part.rels.get_or_add_ext_rel(f"{LINKS}/comments", "http://127.0.0.1:9/comments.xml")
    slide.notes_slide.notes_text_frame.text = "Say hello"
    assert shown(read(presentation, tmp_path, options)) == [
        ("heading", "Title", 1),
        ("note", "Say hello", 1),
        ("note", "Too long", 1),
        ("note", "No,\nit isn't", 1),
        ("note", "Too short", 1),
    ]


def test_pptx_smart_art_is_read(presentation: Any, tmp_path: Path, options: ParseOptions) -> None:
    slide = presentation.slides[0]
    link = attach(slide, "data", f"{LINKS}/diagramData", SMART_ART)
    insert(slide, frame(DIAGRAM, f"<dgm:relIds r:dm='{link}' r:lo='x'/>"))
    document = read(presentation, tmp_path, options)
    assert [(kind, text) for kind, text, _ in shown(document)][1:] == [("list_item", "Book"), ("list_item", "Drive")]
    assert document.warnings == []


def test_pptx_images_and_graphics_are_counted(
    presentation: Any, samples: Path, tmp_path: Path, options: ParseOptions
) -> None:
    slide = presentation.slides[0]
    for _ in range(2):
        slide.shapes.add_picture(str(samples / "photo.png"), Inches(1), Inches(1))
    group = slide.shapes.add_group_shape()
    group.shapes.add_picture(str(samples / "photo.png"), Inches(1), Inches(1))
    insert(slide, frame("http://schemas.microsoft.com/office/drawing/2014/chartex"))
    assert read(presentation, tmp_path, options).warnings == [
        ServiceWarning("images_not_read", "4 images were not read.", 4)
    ]


def test_pptx_one_of_alternatives_is_read(presentation: Any, tmp_path: Path, options: ParseOptions) -> None:
    slide = presentation.slides[0]
    inner = f"<c:AlternateContent><c:Choice>{shape(20, 'inner')}</c:Choice></c:AlternateContent>"
    for choice in (f"<c:Choice Requires='a14'>{shape(21, 'first')}{inner}</c:Choice>", ""):
        fallback = f"<c:Fallback>{shape(22, 'second')}</c:Fallback>"
        insert(slide, f"<c:AlternateContent xmlns:c='{COMPATIBILITY}'>{choice}{fallback}</c:AlternateContent>")
    insert(slide, f"<c:AlternateContent xmlns:c='{COMPATIBILITY}'/>")
    texts = [text for _, text, _ in shown(read(presentation, tmp_path, options))]
    assert texts == ["Title", "first", "inner", "second"]


@pytest.mark.parametrize("content", ["", "<p:cmLst", LEGACY_COMMENTS[:-20]])
def test_pptx_damaged_comments_leave_slide(
    content: str, presentation: Any, tmp_path: Path, options: ParseOptions
) -> None:
    attach(presentation.slides[0], "comment", f"{LINKS}/comments", content)
    document = read(presentation, tmp_path, options)
    assert (shown(document), document.warnings) == (
        [("heading", "Title", 1)],
        [ServiceWarning("damaged_parts_not_read", "1 damaged part was not read.", 1)],
    )


def test_pptx_large_chart_numbers_are_written_in_full(presentation: Any, tmp_path: Path, options: ParseOptions) -> None:
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]  # python-pptx types it in part
    data.categories = ["2025"]
    data.add_series("Revenue", [12345678.9])
    presentation.slides[0].shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(3), Inches(3), data)
    assert "| 2025 | 12345678.9 |" in read(presentation, tmp_path, options).blocks[-1].text

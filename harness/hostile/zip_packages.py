"""Minimal zip packages of each format: the fewest members that the format's parser accepts."""

import io
import zipfile
from collections.abc import Mapping

from harness.reproducible_files import create_zip_member

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
CONTENT = "application/vnd.openxmlformats-officedocument"

Members = Mapping[str, str | bytes]


def pack_zip(members: Members) -> bytes:
    """Pack members into a zip. The same members always give the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(create_zip_member(name), content)
    return file.getvalue()


def build_relationships(*targets: tuple[str, str, str], extra: str = "") -> str:
    """Build the relationships of a package part from ids, kinds and targets; ``extra`` is XML to append."""
    result = "".join(f'<Relationship Id="{i}" Type="{OFFICE}/{kind}" Target="{to}"/>' for i, kind, to in targets)
    return f'<Relationships xmlns="{PACKAGE}/relationships">{result}{extra}</Relationships>'


def build_external_relationship(identifier: str, kind: str, url: str) -> str:
    """Build one relationship with a target outside of the package."""
    return f'<Relationship Id="{identifier}" Type="{OFFICE}/{kind}" Target="{url}" TargetMode="External"/>'


def _build_content_types(overrides: Mapping[str, str]) -> str:
    parts = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in overrides.items())
    return (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType='
        f'"application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{parts}</Types>'
    )


def build_word_document(
    body: str, *, prolog: str = "", extra_links: str = "", parts: Members | None = None
) -> dict[str, str | bytes]:
    """Build the members of a Word document.

    Args:
        body: XML of the body.
        prolog: XML before the root element, such as a document type.
        extra_links: XML of further relationships.
        parts: Further members.
    """
    kind = f"{CONTENT}.wordprocessingml.document.main+xml"
    return {
        "[Content_Types].xml": _build_content_types({"word/document.xml": kind}),
        "_rels/.rels": build_relationships(("d", "officeDocument", "word/document.xml")),
        "word/document.xml": (
            f'{prolog}<w:document xmlns:w="{WORD}" xmlns:r="{OFFICE}" xmlns:a="{DRAWING}"><w:body>{body}</w:body>'
            "</w:document>"
        ),
        "word/_rels/document.xml.rels": build_relationships(extra=extra_links),
        **(parts or {}),
    }


def build_paragraph(text: str) -> str:
    """Build one paragraph of a Word document."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def build_workbook(rows: str, *, prolog: str = "", extra_links: str = "") -> dict[str, str | bytes]:
    """Build the members of an Excel workbook with one sheet.

    Args:
        rows: XML of the rows.
        prolog: XML before the root element of the sheet.
        extra_links: XML of further relationships.
    """
    kind = f"{CONTENT}.spreadsheetml"
    return {
        "[Content_Types].xml": _build_content_types(
            {"xl/workbook.xml": f"{kind}.sheet.main+xml", "xl/worksheets/sheet1.xml": f"{kind}.worksheet+xml"}
        ),
        "_rels/.rels": build_relationships(("d", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": (
            f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="A" sheetId="1" r:id="s"/></sheets>'
            "</workbook>"
        ),
        "xl/_rels/workbook.xml.rels": build_relationships(
            ("s", "worksheet", "worksheets/sheet1.xml"), extra=extra_links
        ),
        "xl/worksheets/sheet1.xml": f'{prolog}<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
    }


def build_cell(place: str, text: str) -> str:
    """Build one cell with a text."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def build_presentation(shapes: str, *, prolog: str = "", extra_links: str = "") -> dict[str, str | bytes]:
    """Build the members of a presentation with one slide.

    Args:
        shapes: XML of the shapes.
        prolog: XML before the root element of the slide.
        extra_links: XML of further relationships.
    """
    kind = f"{CONTENT}.presentationml"
    return {
        "[Content_Types].xml": _build_content_types(
            {"ppt/presentation.xml": f"{kind}.presentation.main+xml", "ppt/slides/slide1.xml": f"{kind}.slide+xml"}
        ),
        "_rels/.rels": build_relationships(("d", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": (
            f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{OFFICE}"><p:sldIdLst><p:sldId id="256" r:id="s"/>'
            "</p:sldIdLst></p:presentation>"
        ),
        "ppt/_rels/presentation.xml.rels": build_relationships(("s", "slide", "slides/slide1.xml")),
        "ppt/slides/slide1.xml": (
            f'{prolog}<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"><p:cSld><p:spTree>'
            "<p:nvGrpSpPr><p:cNvPr id='1' name=''/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>"
            f"{shapes}</p:spTree></p:cSld></p:sld>"
        ),
        "ppt/slides/_rels/slide1.xml.rels": build_relationships(extra=extra_links),
    }


def build_text_box(text: str) -> str:
    """Build one text box of a slide."""
    return (
        "<p:sp><p:nvSpPr><p:cNvPr id='2' name='a'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>"
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def build_book(
    chapter: str, *, prolog: str = "", manifest: str = "", parts: Members | None = None
) -> dict[str, str | bytes]:
    """Build the members of an EPUB with one chapter.

    Args:
        chapter: XHTML of the chapter.
        prolog: XML before the root element of the chapter.
        manifest: XML of further manifest items.
        parts: Further members.
    """
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": (
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
            '<rootfile full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
        ),
        "b.opf": (
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><manifest>'
            f'<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/>{manifest}</manifest>'
            '<spine><itemref idref="c"/></spine></package>'
        ),
        "c.xhtml": f'{prolog}<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{chapter}</p></body></html>',
        **(parts or {}),
    }

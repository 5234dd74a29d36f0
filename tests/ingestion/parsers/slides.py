"""PowerPoint files written part by part, for the tests of the parser."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx import pptx_parser
from app.ingestion.types import ParsedDocument
from harness.reproducible_files import create_zip_member
from tests.ingestion.parsers.word import LINKS, PACKAGE_LINKS

SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
NAMESPACES = (
    f'xmlns:p="{SLIDE}" xmlns:r="{LINKS}" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)
DECK = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"

Link = tuple[str, str, str]
"""Id, kind and target of a relationship. A target with a scheme is outside of the file."""


def format_links(targets: Sequence[Link]) -> str:
    found = "".join(
        f'<Relationship Id="{name}" Type="{LINKS}/{kind}" Target="{target}"'
        + (' TargetMode="External"/>' if ":" in target else "/>")
        for name, kind, target in targets
    )
    return f'<Relationships xmlns="{PACKAGE_LINKS}">{found}</Relationships>'


def write_slides(
    path: Path,
    *slides: str,
    targets: Sequence[Link] = (),
    parts: dict[str, str] | None = None,
    content_type: str = DECK,
    extension: str = "",
) -> Path:
    """Write a presentation. Each slide is the content of its shape tree, or a whole part that begins with ``<p:sld``.

    Args:
        path: File to write.
        slides: Slides in the order of the show.
        targets: Relationships of each slide.
        parts: Other parts by name.
        content_type: Content type of the main part.
        extension: Content at the end of the main part.

    Returns:
        The path.
    """
    numbers = range(1, len(slides) + 1)
    ids = "".join(f'<p:sldId id="{255 + number}" r:id="s{number}"/>' for number in numbers)
    main = f"<p:presentation {NAMESPACES}><p:sldIdLst>{ids}</p:sldIdLst>{extension}</p:presentation>"
    types = f'<Types><Override PartName="/ppt/presentation.xml" ContentType="{content_type}"/></Types>'
    members = {
        "[Content_Types].xml": types,
        "_rels/.rels": format_links([("d", "officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": main,
        "ppt/_rels/presentation.xml.rels": format_links(
            [(f"s{number}", "slide", f"slide{number}.xml") for number in numbers]
        ),
    }
    for number, slide in zip(numbers, slides, strict=True):
        whole = f"<p:sld {NAMESPACES}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>"
        members[f"ppt/slide{number}.xml"] = (
            slide.replace("<p:sld", f"<p:sld {NAMESPACES}") if slide[:6] == "<p:sld" else whole
        )
        members[f"ppt/_rels/slide{number}.xml.rels"] = format_links(targets)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**members, **(parts or {})}.items():
            archive.writestr(create_zip_member(name), content)
    return path


def read_slides(path: Path, options: ParseOptions) -> list[str]:
    return [block.text for block in pptx_parser.parse(path, options).blocks]


def list_warnings(document: ParsedDocument) -> list[tuple[str, int | None]]:
    return [(str(warning.code), warning.count) for warning in document.warnings]


def slide_part(tag: str, content: str) -> str:
    return f"<{tag} {NAMESPACES}>{content}</{tag}>"


def text_run(text: str, properties: str = "", attributes: str = "") -> str:
    return f"<a:r><a:rPr {attributes}>{properties}</a:rPr><a:t>{text}</a:t></a:r>"


def line(*content: str) -> str:
    return f"<a:p>{''.join(content)}</a:p>"


def shape(*paragraphs: str, top: int = 0, placeholder: str = "", name: str = "/>") -> str:
    """Return a text shape; ``name`` is the end of its name element."""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1"{name}<p:cNvSpPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr>'
        f'<p:spPr><a:xfrm><a:off x="0" y="{top}"/></a:xfrm></p:spPr><p:txBody>{"".join(paragraphs)}</p:txBody></p:sp>'
    )


def frame(content: str, name: str = "/>") -> str:
    """Return a graphic frame; ``name`` is the end of its name element."""
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="1"{name}<p:nvPr/></p:nvGraphicFramePr>'
        f"<a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></p:graphicFrame>"
    )


def image_shape(name: str = "/>", properties: str = "", embed: str = "x") -> str:
    """Return an image; ``name`` is the end of its name element."""
    return (
        f'<p:pic><p:nvPicPr><p:cNvPr id="1"{name}<p:cNvPicPr/><p:nvPr>{properties}</p:nvPr></p:nvPicPr>'
        f'<p:blipFill><a:blip r:embed="{embed}"/></p:blipFill></p:pic>'
    )


def slide_cell(text: str, attributes: str = "", run_attributes: str = "") -> str:
    return f"<a:tc {attributes}><a:txBody>{line(text_run(text, attributes=run_attributes))}</a:txBody></a:tc>"


def slide_table(*rows: Sequence[str]) -> str:
    return frame("<a:tbl>" + "".join(f"<a:tr>{''.join(row)}</a:tr>" for row in rows) + "</a:tbl>")

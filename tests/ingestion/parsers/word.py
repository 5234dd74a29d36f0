"""Word documents written part by part, for the tests of the parser."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from app.ingestion.types import ParsedDocument
from harness.reproducible_files import create_zip_member

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT_WORD = "http://purl.oclc.org/ooxml/wordprocessingml/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NAMESPACES = (
    f'xmlns:w="{WORD}" xmlns:r="{LINKS}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml" '
    'xmlns:o="urn:schemas-microsoft-com:office:office"'
)
PACKAGE_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"

Shown = list[tuple[str, int, str]]


def part(word: str, content: str) -> str:
    return f"<{word} {NAMESPACES}>{content}</{word}>"


def links(targets: Iterable[tuple[str, str, str]], extra: str = "") -> str:
    """Return relationships from id, kind and target."""
    found = "".join(f'<Relationship Id="{i}" Type="{LINKS}/{kind}" Target="{to}"/>' for i, kind, to in targets)
    return f'<Relationships xmlns="{PACKAGE_LINKS}">{found}{extra}</Relationships>'


def write(path: Path, body: str, parts: dict[str, str] | None = None, *, extra_links: str = "") -> Path:
    """Write a document with this body.

    A part's name is its id, and its kind without the digits: ``header2`` is a header.
    """
    parts = parts or {}
    targets = [(name, name.rstrip("0123456789"), f"{name}.xml") for name in parts if "/" not in name]
    with zipfile.ZipFile(path, "w") as archive:
        package = [
            ("d", "officeDocument", "word/document.xml"),
            ("c", "metadata/core-properties", "/docProps/core.xml"),
        ]
        archive.writestr(create_zip_member("_rels/.rels"), links(package))
        archive.writestr(create_zip_member("word/document.xml"), part("w:document", f"<w:body>{body}</w:body>"))
        archive.writestr(create_zip_member("word/_rels/document.xml.rels"), links(targets, extra_links))
        for name, content in parts.items():
            archive.writestr(create_zip_member(name if "/" in name else f"word/{name}.xml"), content)
    return path


def p(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>"


def style(name: str) -> str:
    return f'<w:pStyle w:val="{name}"/>'


def cell(content: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content}</w:tc>"


def table(*rows: Iterable[str]) -> str:
    return "<w:tbl>" + "".join(f"<w:tr>{''.join(row)}</w:tr>" for row in rows) + "</w:tbl>"


def shown(document: ParsedDocument) -> Shown:
    return [(block.kind.value, block.level, block.text) for block in document.blocks]


def text_of(document: ParsedDocument) -> list[str]:
    return [block.text for block in document.blocks]


def run(*content: str) -> str:
    return f"<w:r>{''.join(content)}</w:r>"


def t(text: str) -> str:
    return f"<w:t>{text}</w:t>"


def field(word: str) -> str:
    return run(f'<w:fldChar w:fldCharType="{word}"/>')


def box(text: str) -> str:
    return f"<w:txbxContent>{p(text)}</w:txbxContent>"


def formatted(text: str, properties: str) -> str:
    """Return a run with properties, and with the spaces of its text."""
    return run(f"<w:rPr>{properties}</w:rPr>", f'<w:t xml:space="preserve">{text}</w:t>')


def plain(text: str) -> str:
    return formatted(text, "")


def paragraph(*content: str) -> str:
    return f"<w:p>{''.join(content)}</w:p>"


def styles(*definitions: str) -> dict[str, str]:
    """Return a styles part with definitions of styles."""
    return {"styles": part("w:styles", "".join(definitions))}

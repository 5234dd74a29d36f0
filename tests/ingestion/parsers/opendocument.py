"""OpenDocument files written part by part, for the tests of the parsers."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from harness.reproducible_files import create_zip_member

TEXT, SPREADSHEET, PRESENTATION = (
    f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet", "presentation")
)
_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
NAMESPACES = " ".join(
    f'xmlns:{prefix}="{_OASIS}:{name}:1.0"'
    for prefix, name in {
        "office": "office", "text": "text", "table": "table", "style": "style", "draw": "drawing", "chart": "chart",
        "fo": "xsl-fo-compatible", "svg": "svg-compatible", "form": "form", "presentation": "presentation",
        "manifest": "manifest", "meta": "meta",
    }.items()
) + (
    ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    ' xmlns:math="http://www.w3.org/1998/Math/MathML"'
)  # fmt: skip


def content(kind: str, body: str, styles: str = "") -> str:
    return (
        f"<office:document-content {NAMESPACES}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )


def write(
    path: Path,
    body: str,
    *,
    kind: str = "text",
    styles: str = "",
    common: str = "",
    title: str = "",
    parts: Mapping[str, str | bytes] | None = None,
    mimetype: str | None = "",
) -> Path:
    """Write a file with this body.

    ``styles`` are automatic styles, and ``common`` is the content of styles.xml. ``mimetype`` is None for a file
    without this member.
    """
    with zipfile.ZipFile(path, "w") as archive:
        if mimetype is not None:
            archive.writestr("mimetype", mimetype or f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr(create_zip_member("content.xml"), content(kind, body, styles))
        archive.writestr(
            create_zip_member("styles.xml"),
            f"<office:document-styles {NAMESPACES}>{common}</office:document-styles>",
        )
        meta = f"<office:document-meta {NAMESPACES}><office:meta><dc:title>{title}</dc:title></office:meta>"
        archive.writestr(create_zip_member("meta.xml"), f"{meta}</office:document-meta>")
        for name, data in (parts or {}).items():
            archive.writestr(create_zip_member(name), data)
    return path


def style(name: str, family: str, properties: str = "", more: str = "", inner: str = "") -> str:
    """Return a style; ``properties`` are attributes of its text properties."""
    return (
        f'<style:style style:name="{name}" style:family="{family}" {more}>{inner}'
        f"<style:text-properties {properties}/></style:style>"
    )


def p(text: str, style_name: str = "Standard") -> str:
    return f'<text:p text:style-name="{style_name}">{text}</text:p>'


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}>{p(text) if not text.startswith('<') else text}</table:table-cell>"


COVERED = "<table:covered-table-cell/>"


def row(*cells: str, attributes: str = "") -> str:
    return f"<table:table-row {attributes}>{''.join(cells)}</table:table-row>"


def table(*rows: str, header: str = "", attributes: str = "") -> str:
    head = f"<table:table-header-rows>{header}</table:table-header-rows>" if header else ""
    return f'<table:table table:name="T" {attributes}><table:table-column/>{head}{"".join(rows)}</table:table>'

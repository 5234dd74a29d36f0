"""Text of an XLSX sheet outside of its cells: links, comments, drawings, allowed values, headers and footers."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.workbooks.sheet_scan import parse_column
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_tag,
    iter_texts,
)
from app.ingestion.parsers.toolkit.safe_xml import get_local_name
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import CorruptFile

MAX_TEXTS = 10_000
"""Maximum number of comments, of shapes and of links of a sheet that are read."""

_HYPERLINK = re.compile(r"<(?:\w+:)?hyperlink\b([^<>]*)>")
_VALIDATION = re.compile(
    r"<(?:\w+:)?dataValidation\b([^<>]*)>\s*<(?:\w+:)?formula1>\s*(?:\"|&quot;)([^<>]*?)(?:\"|&quot;)\s*<"
)
_HEADER = re.compile(r"<(?:\w+:)?((?:odd|even|first)(?:Header|Footer))>([^<>]{1,2000})<")
_HEADER_CODE = re.compile(r"&(?:\"[^\"]*\"|K[0-9A-Fa-f]{6}|\d{1,3}|[BIUESXYOHPNDTFAZ])")
_HEADER_PART = re.compile(r"&[LCR]")
_ATTRIBUTE = re.compile(r"([\w:]+)\s*=\s*\"([^\"]*)\"")
_CELL_NAME = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_LEGACY_NOTICE = "[Threaded comment]"


@dataclass(slots=True)
class SheetParts:
    """Text of a sheet outside of its cells.

    Attributes:
        links: Address of the link of each cell, by row and column from 0.
        lines: Comments, allowed values, texts of shapes, titles of charts, headers and footers.
        images: Number of images without a description.
    """

    links: dict[tuple[int, int], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    images: int = 0


def read_sheet_parts(package: Package, part: str, tail: bytes) -> SheetParts:
    """Read the parts of a sheet.

    Args:
        package: Parts of the workbook.
        part: Name of the part of the sheet.
        tail: XML of the sheet after its cells.
    """
    parts = SheetParts()
    xml = tail.decode("utf-8", "replace")
    parts.links = dict(_iter_links(xml, package.list_external_targets(part)))
    parts.lines += dict.fromkeys(_iter_allowed_values(xml))
    relationships = package.list_relationships(part)
    threaded = _read_comments(package, [link.target for link in relationships if link.kind == "threadedComment"])
    legacy = _read_comments(package, [link.target for link in relationships if link.kind == "comments"])
    comments = legacy | threaded
    parts.lines += [f"Comment on {cell}: {text}" for cell, text in list(comments.items())[:MAX_TEXTS]]
    for link in relationships:
        if link.kind == "drawing":
            _read_drawing(package, link.target, parts)
    parts.lines += dict.fromkeys(_iter_headers(xml))
    return parts


def _iter_links(xml: str, targets: Mapping[str, str]) -> Iterator[tuple[tuple[int, int], str]]:
    for number, match in enumerate(_HYPERLINK.finditer(xml)):
        if number >= MAX_TEXTS:
            return
        attributes = {name.rpartition(":")[2]: value for name, value in _ATTRIBUTE.findall(match[1])}
        cell = _CELL_NAME.match(attributes.get("ref", ""))
        target = targets.get(attributes.get("id", ""), "")
        if cell and target:
            yield (int(cell[2]) - 1, parse_column(cell[1].encode()) - 1), target


def _iter_allowed_values(xml: str) -> Iterator[str]:
    """Yield a line for each list of allowed values that the sheet itself contains."""
    for match in _VALIDATION.finditer(xml):
        attributes = dict(_ATTRIBUTE.findall(match[1]))
        if attributes.get("type") == "list":
            values = ", ".join(clean_line(value) for value in html.unescape(match[2]).split(","))
            yield f"Allowed values of {clean_line(attributes.get('sqref', ''))[:100]}: {values}"


def _iter_headers(xml: str) -> Iterator[str]:
    for match in _HEADER.finditer(xml):
        name = "Header" if match[1].endswith("Header") else "Footer"
        pieces = _HEADER_PART.split(html.unescape(match[2]))
        text = " ".join(clean_line(_HEADER_CODE.sub(" ", piece).replace("&&", "&")) for piece in pieces).strip()
        if any(character.isalpha() for character in text.replace("Page", "").replace(" of ", "")):
            yield f"{name}: {clean_line(text)}"


def _read_comments(package: Package, targets: list[str]) -> dict[str, str]:
    """Return the comments by cell. The notice that old programs show instead of a threaded comment is left out."""
    comments: dict[str, str] = {}
    for target in targets:
        root = package.parse_optional_part(target)
        for element in root.iter() if root is not None else ():
            if get_local_name(element) in ("comment", "threadedComment"):
                text = clean_line(_join_comment(element))
                cell = get_attribute(element, "ref")
                if text and cell and not text.startswith(_LEGACY_NOTICE):
                    comments[cell] = f"{comments[cell]} {text}" if cell in comments else text
    return comments


def _join_comment(element: Element) -> str:
    return "".join(item.text or "" for item in element.iter() if get_local_name(item) in ("t", "text"))


def _read_drawing(package: Package, part: str, parts: SheetParts) -> None:
    root = package.parse_optional_part(part)
    charts = {link.id: link.target for link in package.list_relationships(part) if link.kind in ("chart", "chartEx")}
    for element in root.iter() if root is not None else ():
        name = get_local_name(element)
        if name in ("sp", "cxnSp") and len(parts.lines) < MAX_TEXTS:
            text = clean_line(
                " ".join("".join(iter_texts(item, "a:t")) for item in element.iter() if _is_paragraph(item))
            )
            if text:
                parts.lines.append(text)
        elif name == "pic":
            description = next((get_attribute(item, "descr") for item in element.iter() if _is_name(item)), "")
            if clean_line(description):
                parts.lines.append(f"Picture: {clean_line(description)}")
            else:
                parts.images += 1
    parts.lines += [line for target in charts.values() if (line := read_chart_titles(package, target))]


def _is_paragraph(element: Element) -> bool:
    return get_tag(element) == "a:p"


def _is_name(element: Element) -> bool:
    return get_local_name(element) == "cNvPr"


def read_chart_titles(package: Package, part: str) -> str:
    """Return the titles of a chart, of its axes and of its series as one line; empty if it has none."""
    try:
        root = package.parse_part(part)
    except CorruptFile:
        return ""
    titles = [
        clean_line("".join(iter_texts(element, "a:t", "c:v")))
        for element in root.iter()
        if get_tag(element) == "c:title" or (get_tag(element) == "c:tx" and get_tag(element.getparent()) == "c:ser")
    ]
    names = list(dict.fromkeys(filter(None, titles)))
    return f"Chart: {'; '.join(names)}" if names and find_child(root, "c:chart") is not None else ""


def list_chart_sheet_titles(package: Package, part: str) -> list[str]:
    """Return the lines of the drawings of a chart sheet."""
    parts = SheetParts()
    for link in package.list_relationships(part):
        if link.kind == "drawing":
            _read_drawing(package, link.target, parts)
    return parts.lines

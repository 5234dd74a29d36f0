"""Structure of an XLSX workbook: its sheets with their parts, its number formats and its named constants."""

import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.ingestion.parsers.toolkit.number_formats import BUILT_IN_FORMATS
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_int_attribute,
    iter_children,
)
from app.ingestion.types import CorruptFile

MAX_STYLES = 65_536
WORKSHEET_KIND = "worksheet"
CHART_SHEET_KIND = "chartsheet"
OPENABLE_SHEET_KINDS = (WORKSHEET_KIND, CHART_SHEET_KIND, "dialogsheet")
"""Kinds of sheets with which python-calamine opens a workbook."""

_SHEET_ELEMENT = re.compile(rb"<(?:\w+:)?sheet\b[^<>]*?(?:/>|>\s*</(?:\w+:)?sheet>)")
_RELATIONSHIP_ID = re.compile(rb"\b\w+:id\s*=\s*[\"']([^\"'<>]*)[\"']")
_CONSTANT = re.compile(r"-?\d[\d.]*%?|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class SheetPart:
    """A sheet of a workbook.

    Attributes:
        kind: Kind of the sheet, such as worksheet or chartsheet.
        part: Name of its part.
    """

    kind: str
    part: str

    @property
    def is_known(self) -> bool:
        """Whether python-calamine opens a workbook with such a sheet."""
        return self.kind in OPENABLE_SHEET_KINDS


class XlsxWorkbook:
    """The parts of an XLSX workbook.

    Attributes:
        package: Parts of the archive.
        sheets: Sheets by their relationship id, in the order of the workbook.
        formats: Number format of each cell style.
        starts_in_1904: Whether day 0 of the workbook is 1 January 1904.
        constants: Named constants with their values.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.package = Package(archive)
        documents = [link for link in self.package.list_relationships() if link.kind == "officeDocument"]
        self.part = documents[0].target if documents else "/xl/workbook.xml"
        root = self.package.parse_optional_part(self.part)
        links = {link.id: link for link in self.package.list_relationships(self.part)}
        self.sheets: dict[str, SheetPart] = {}
        for sheet in iter_children(find_child(root, "x:sheets")):
            link = links.get(get_attribute(sheet, "id"))
            if link is not None:
                self.sheets[link.id] = SheetPart(link.kind, link.target)
        styles = next((link.target for link in links.values() if link.kind == "styles"), None)
        self.formats = _read_formats(self.package.parse_optional_part(styles))
        self.starts_in_1904 = get_attribute(find_child(root, "x:workbookPr"), "date1904") in ("1", "true")
        self.constants = _read_constants(find_child(root, "x:definedNames"))

    def list_sheet_parts(self) -> list[SheetPart]:
        """Return the sheets in the order of the workbook."""
        return list(self.sheets.values())


def _read_formats(styles: Element | None) -> list[str]:
    """Return the number format of each cell style. A built-in format that depends on the locale is empty."""
    custom = {
        get_int_attribute(item, "numFmtId"): get_attribute(item, "formatCode")
        for item in iter_children(find_child(styles, "x:numFmts"), "x:numFmt")
    }
    formats = []
    for style in iter_children(find_child(styles, "x:cellXfs"), "x:xf"):
        number = get_int_attribute(style, "numFmtId") or 0
        formats.append(custom.get(number) or BUILT_IN_FORMATS.get(number, ""))
        if len(formats) >= MAX_STYLES:
            break
    return formats


def _read_constants(names: Element | None) -> Mapping[str, str]:
    """Return the named constants of a workbook. Names of cells are left out, because the cells are read."""
    constants = {}
    for item in iter_children(names, "x:definedName"):
        value = (item.text or "").strip().removeprefix("=")
        name = get_attribute(item, "name")
        if not name.startswith("_xlnm") and _CONSTANT.fullmatch(value):
            constants[name] = value.strip('"')
    return constants


def drop_unknown_sheets(path: Path) -> tuple[io.BytesIO, int] | None:
    """Return a copy of an XLSX workbook without the sheets that python-calamine does not know, such as macro sheets.

    Args:
        path: The workbook, already checked by ``check_archive``.

    Returns:
        The copy and the number of sheets that it lacks; None if the workbook has no such sheet.

    Raises:
        CorruptFile: The list of sheets is missing or damaged.
    """
    with zipfile.ZipFile(path) as archive:
        workbook = XlsxWorkbook(archive)
        unknown = {key for key, sheet in workbook.sheets.items() if not sheet.is_known}
        content = workbook.package.read_part(workbook.part) if unknown else b""
    if not unknown:
        return None
    reduced = _SHEET_ELEMENT.sub(lambda match: b"" if _get_id(match[0]) in unknown else match[0], content)
    if reduced == content:
        raise CorruptFile
    copy = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(copy, "a", zipfile.ZIP_DEFLATED) as archive:
        # The directory of the copy lists only the new list of sheets; the old one stays as unused bytes.
        old = [item for item in archive.filelist if f"/{item.filename}".replace("\\", "/").lower() == workbook.part]
        for item in old:
            archive.filelist.remove(item)
            archive.NameToInfo.pop(item.filename, None)
        archive.writestr(old[0].filename if old else workbook.part.lstrip("/"), reduced)
    copy.seek(0)
    return copy, len(unknown)


def _get_id(element: bytes) -> str:
    match = _RELATIONSHIP_ID.search(element)
    return match[1].decode("utf-8", "replace") if match else ""

"""Excel workbooks written part by part, for the tests of the parser."""

import datetime
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from harness.reproducible_files import create_zip_member

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
DATE, DATE_TIME, DURATION = 1, 2, 3
STYLES = f"""<styleSheet xmlns="{MAIN}"><cellXfs>
<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="46"/></cellXfs></styleSheet>"""
EPOCH = datetime.datetime(1899, 12, 30)

Value = str | int | float | bool | datetime.date | datetime.timedelta | None


def write(path: Path, sheets: Mapping[str, str], *, states: Mapping[str, str] | None = None) -> Path:
    """Write a workbook of sheets in XML; ``states`` maps sheet names to their values of hidden."""
    states = states or {}
    names = "".join(
        f'<sheet name="{escape(name)}" sheetId="{number}" r:id="r{number}" state="{states.get(name, "visible")}"/>'
        for number, name in enumerate(sheets, start=1)
    )
    targets = [("worksheet", f"worksheets/sheet{number}.xml") for number in range(1, len(sheets) + 1)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(create_zip_member("_rels/.rels"), links([("officeDocument", "xl/workbook.xml")]))
        archive.writestr(create_zip_member("xl/_rels/workbook.xml.rels"), links([*targets, ("styles", "styles.xml")]))
        archive.writestr(create_zip_member("xl/styles.xml"), STYLES)
        workbook = f'<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets>{names}</sheets></workbook>'
        archive.writestr(create_zip_member("xl/workbook.xml"), workbook)
        for (_, target), content in zip(targets, sheets.values(), strict=True):
            archive.writestr(create_zip_member(f"xl/{target}"), content)
    return path


def links(targets: Sequence[tuple[str, str]]) -> str:
    found = "".join(
        f'<Relationship Id="r{number}" Type="{LINKS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{PACKAGE_LINKS}">{found}</Relationships>'


def sheet(rows: Sequence[Sequence[Value]], *, merged: str = "") -> str:
    """Return a sheet with these rows from A1 on; None is no cell."""
    body = "".join(
        f'<row r="{r}">{"".join(cell(f"{chr(65 + c)}{r}", value) for c, value in enumerate(row))}</row>'
        for r, row in enumerate(rows, start=1)
    )
    merges = f'<mergeCells count="1"><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
    return worksheet(f"<sheetData>{body}</sheetData>{merges}")


def worksheet(content: str) -> str:
    return f'<worksheet xmlns="{MAIN}">{content}</worksheet>'


def cell(place: str, value: Value) -> str:
    match value:
        case None:
            return ""
        case str():
            return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        case bool():
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        case datetime.datetime():
            return f'<c r="{place}" s="{DATE_TIME}"><v>{(value - EPOCH) / datetime.timedelta(days=1)!r}</v></c>'
        case datetime.date():
            return f'<c r="{place}" s="{DATE}"><v>{value.toordinal() - EPOCH.toordinal()}</v></c>'
        case datetime.timedelta():
            return f'<c r="{place}" s="{DURATION}"><v>{value / datetime.timedelta(days=1)!r}</v></c>'
        case _:
            return f'<c r="{place}"><v>{value!r}</v></c>'

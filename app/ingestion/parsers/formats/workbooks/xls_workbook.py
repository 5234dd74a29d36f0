"""Number formats, error values and links of the cells of an XLS workbook ([MS-XLS]), which the library leaves out."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from app.ingestion.parsers.formats.workbooks.cell_rows import CellSource
from app.ingestion.parsers.formats.workbooks.sheet_scan import CellDetail
from app.ingestion.parsers.formats.workbooks.unread_parts import UnreadParts
from app.ingestion.parsers.toolkit.compound_files import CompoundFile
from app.ingestion.parsers.toolkit.number_formats import BUILT_IN_FORMATS, GENERAL
from app.ingestion.types import CorruptFile
from app.warnings import WarningCode

MAX_DETAILS = 2_000_000
"""Maximum number of cells of a sheet with details."""

_BOF, _EOF, _BOUNDSHEET, _FORMAT, _XF, _DATE_1904 = 0x0809, 0x000A, 0x0085, 0x041E, 0x00E0, 0x0022
_NUMBER, _RK, _MULTIPLE_RK, _FORMULA, _BOOL_OR_ERROR, _NOTE, _LINK = 0x0203, 0x027E, 0x00BD, 0x0006, 0x0205, 0x1C, 0x1B8
_BIFF8 = 0x0600
_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
_SCHEMES = tuple(scheme.encode("utf-16-le") for scheme in ("http://", "https://", "mailto:"))


@dataclass(slots=True)
class XlsSheet:
    """Details of the cells of a sheet.

    Attributes:
        rows: Cells by row and column, from 0.
        links: Address of the link of each cell, by row and column from 0.
        notes: Number of comments.
    """

    rows: dict[int, dict[int, CellDetail]] = field(default_factory=dict)
    links: dict[tuple[int, int], str] = field(default_factory=dict)
    notes: int = 0

    def iter_details(self) -> Iterator[tuple[int, Mapping[int, CellDetail]]]:
        """Yield the rows with their cells, in the order of the rows."""
        for row in sorted(self.rows):
            yield row, self.rows[row]


@dataclass(slots=True)
class XlsWorkbook:
    """Formats and sheets of an XLS workbook.

    Attributes:
        formats: Number format of each cell style.
        sheets: Sheets in the order of the workbook.
        starts_in_1904: Whether day 0 of the workbook is 1 January 1904.
        constants: Named constants; they are not read.
    """

    formats: list[str] = field(default_factory=list)
    sheets: list[XlsSheet] = field(default_factory=list)
    starts_in_1904: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)

    def read_sheet(self, index: int, unread: UnreadParts) -> tuple[CellSource, list[str]]:
        """Return the details of the cells of a sheet, and no lines. The comments of the sheet are counted."""
        if index >= len(self.sheets):
            unread.counts[WarningCode.NUMBER_FORMATS_NOT_READ] += 1
            return CellSource(), []
        sheet = self.sheets[index]
        unread.counts[WarningCode.COMMENTS_NOT_READ] += sheet.notes
        cells = CellSource(sheet.iter_details(), self.formats, sheet.links, starts_in_1904=self.starts_in_1904)
        return cells, []

    def list_chart_lines(self, _index: int) -> list[str]:
        """Return no lines, because chart sheets of XLS workbooks are not read."""
        return []


def read_xls_workbook(data: bytes) -> XlsWorkbook:
    """Read the formats and the details of the cells. A damaged workbook has no details.

    Args:
        data: Bytes of the XLS file.
    """
    try:
        file = CompoundFile(data)
        number = file.root.streams.get("workbook", file.root.streams.get("book"))
        return XlsWorkbook() if number is None else _read_stream(file.read_stream(number))
    except (CorruptFile, ValueError, struct.error, IndexError):
        return XlsWorkbook()


def _read_stream(stream: bytes) -> XlsWorkbook:
    workbook = XlsWorkbook()
    custom: dict[int, str] = {}
    styles: list[int] = []
    offsets: list[int] = []
    version = struct.unpack_from("<H", stream, 4)[0] if len(stream) > 6 else _BIFF8
    for kind, start, size in _iter_records(stream, 0):
        if kind == _BOUNDSHEET:
            offsets.append(struct.unpack_from("<I", stream, start)[0])
        elif kind == _FORMAT:
            custom[struct.unpack_from("<H", stream, start)[0]] = _read_format(stream[start : start + size], version)
        elif kind == _XF:
            styles.append(struct.unpack_from("<H", stream, start + 2)[0])
        elif kind == _DATE_1904:
            workbook.starts_in_1904 = stream[start] == 1
    # A locale-dependent date of the built-in formats is listed as a custom one, so these numbers are left out.
    workbook.formats = [
        "" if style in (14, 22) else custom.get(style) or BUILT_IN_FORMATS.get(style, "") for style in styles
    ]
    shown = {index for index, code in enumerate(workbook.formats) if code and code != GENERAL}
    workbook.sheets = [_read_sheet(stream, offset, shown) for offset in offsets]
    return workbook


def _iter_records(stream: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """Yield the records of a part of the stream with their start and size, without those of embedded charts."""
    depth = 0
    while position + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, position)
        position += 4
        depth += (kind == _BOF) - (kind == _EOF)
        if depth <= 0 or position + size > len(stream):
            return
        if depth == 1:
            yield kind, position, size
        position += size


def _read_format(record: bytes, version: int) -> str:
    if version != _BIFF8:
        return record[3 : 3 + record[2]].decode("cp1252", "replace")
    (length,) = struct.unpack_from("<H", record, 2)
    if record[4] & 1:
        return record[5 : 5 + 2 * length].decode("utf-16-le", "replace")
    return record[5 : 5 + length].decode("latin-1")


def _read_sheet(stream: bytes, offset: int, shown: set[int]) -> XlsSheet:
    sheet = XlsSheet()
    count = 0
    for kind, start, size in _iter_records(stream, offset):
        if kind == _NOTE:
            sheet.notes += 1
        elif kind == _LINK:
            _read_link(stream[start : start + size], sheet)
        elif kind in (_NUMBER, _RK, _FORMULA, _BOOL_OR_ERROR, _MULTIPLE_RK) and size >= 6 and count < MAX_DETAILS:
            row, column, style = struct.unpack_from("<HHH", stream, start)
            styles = [style]
            if kind == _MULTIPLE_RK:
                styles = [struct.unpack_from("<H", stream, place)[0] for place in range(start + 4, start + size - 5, 6)]
            for position, number in enumerate(styles, start=column):
                error = _find_error(kind, stream[start : start + size])
                if error or number in shown:
                    sheet.rows.setdefault(row, {})[position] = CellDetail(number if number in shown else 0, error)
                    count += 1
    return sheet


def _find_error(kind: int, record: bytes) -> str:
    """Return the error value of a cell; empty if it has none."""
    if kind == _BOOL_OR_ERROR and len(record) >= 8 and record[7] == 1:
        return _ERRORS.get(record[6], "#N/A")
    if kind == _FORMULA and len(record) >= 14 and record[12:14] == b"\xff\xff" and record[6] == 2:
        return _ERRORS.get(record[8], "#N/A")
    return ""


def _read_link(record: bytes, sheet: XlsSheet) -> None:
    """Add the address of a link to its first cell. Links to other places of the workbook have no address."""
    start = min((place for scheme in _SCHEMES if (place := record.find(scheme)) >= 0), default=-1)
    if start < 0 or len(record) < 8:
        return
    row, _, column, _ = struct.unpack_from("<HHHH", record)
    address = record[start : start + 2000].decode("utf-16-le", "replace").partition("\0")[0]
    sheet.links[row, column] = address

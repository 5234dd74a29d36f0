"""Details of the cells and the other texts of the sheets of an XLSX workbook."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from app.ingestion.parsers.formats.workbooks.cell_rows import CellSource
from app.ingestion.parsers.formats.workbooks.rich_texts import read_rich_texts
from app.ingestion.parsers.formats.workbooks.sheet_parts import list_chart_sheet_titles, read_sheet_parts
from app.ingestion.parsers.formats.workbooks.sheet_scan import CellDetail, SheetSummary, iter_row_details, scan_sheet
from app.ingestion.parsers.formats.workbooks.unread_parts import UnreadParts
from app.ingestion.parsers.formats.workbooks.xlsx_workbook import XlsxWorkbook
from app.ingestion.parsers.toolkit.number_formats import GENERAL
from app.ingestion.types import CorruptFile, TextTooLong
from app.warnings import WarningCode

MAX_CELLS = 16 << 20
"""Maximum number of cells in the area from the first cell of a sheet to its last cell, as in the XLS format.

The library python-calamine allocates 32 bytes for each cell of the area.
"""

_BINARY_WORKBOOK = "/xl/workbook.bin"
_UNREADABLE_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, RuntimeError, EOFError, OSError)
_FOLDERS = (
    ("/xl/embeddings/", WarningCode.EMBEDDED_DOCUMENTS_NOT_READ),
    ("/xl/externallinks/", WarningCode.EXTERNAL_LINKS_NOT_READ),
    ("/xl/pivotcache/", WarningCode.PIVOT_CACHES_NOT_READ),
)


class XlsxSource:
    """Parts of an open XLSX workbook other than the values of its cells.

    Attributes:
        constants: Named constants with their values.
    """

    def __init__(self, archive: zipfile.ZipFile, summaries: Mapping[str, SheetSummary]) -> None:
        self._workbook = XlsxWorkbook(archive)
        self._summaries = summaries
        self._sheets = [sheet for sheet in self._workbook.list_sheet_parts() if sheet.is_known]
        self._rich_texts = read_rich_texts(self._workbook.package)
        self.constants = self._workbook.constants

    def read_sheet(self, index: int, unread: UnreadParts) -> tuple[CellSource, list[str]]:
        """Return the details of the cells of a sheet, and the lines of its other texts.

        Args:
            index: Number of the sheet in the workbook, from 0.
            unread: Counts of parts that are not read; the method adds those of the sheet.
        """
        if index >= len(self._sheets):
            return CellSource(), []
        part = self._sheets[index].part
        summary = self._summaries.get(part, SheetSummary())
        extras = read_sheet_parts(self._workbook.package, part, summary.tail)
        unread.counts[WarningCode.FORMULAS_WITHOUT_VALUES] += summary.empty_formulas
        unread.counts[WarningCode.IMAGES_NOT_READ] += extras.images
        cells = CellSource(
            self._iter_details(part) if summary.needs_details else iter(()),
            self._workbook.formats,
            extras.links,
            self._rich_texts,
            self._workbook.starts_in_1904,
        )
        return cells, extras.lines

    def _iter_details(self, part: str) -> Iterator[tuple[int, Mapping[int, CellDetail]]]:
        formats = self._workbook.formats
        styles = frozenset(index for index, code in enumerate(formats) if code and code != GENERAL)
        with self._workbook.package.open_part(part) as file:
            yield from iter_row_details(file, styles)

    def list_chart_lines(self, index: int) -> list[str]:
        """Return the lines of a chart sheet: titles of its chart, its axes and its series."""
        return list_chart_sheet_titles(self._workbook.package, self._sheets[index].part) if self._sheets[index:] else []

    def count_parts(self, unread: UnreadParts) -> None:
        """Count the parts of the workbook that are not read."""
        for folder, code in _FOLDERS:
            parts = self._workbook.package.list_parts(folder)
            unread.counts[code] += sum("records" not in part for part in parts)
        if self._workbook.part == _BINARY_WORKBOOK:
            parts = self._workbook.package.list_parts("/xl/worksheets/")
            unread.counts[WarningCode.NUMBER_FORMATS_NOT_READ] += sum(
                "/sheet" in part and part.endswith(".bin") for part in parts
            )


def scan_sheets(path: Path) -> dict[str, SheetSummary]:
    """Scan the sheets of an XLSX workbook.

    The library allocates memory for the whole area, and a sheet can declare 17 billion cells. Cells without a value do
    not count: a distant cell that has only a format is common and harmless.

    Args:
        path: The workbook, already checked by ``check_archive``.

    Returns:
        The summaries of the sheets by part.

    Raises:
        CorruptFile: The archive is damaged.
        TextTooLong: The cells of a sheet cover a larger area than ``MAX_CELLS``.
    """
    summaries = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = "/" + member.filename.replace("\\", "/").lstrip("/").lower()
                if "worksheets/" in name and name.endswith(".xml"):
                    with archive.open(member) as file:
                        for summary in scan_sheet(file):
                            if summary.last_row * summary.last_column > MAX_CELLS:
                                raise TextTooLong("The cells of a sheet are too far apart; remove the outlying cells.")
                            summaries[name] = summary
    except _UNREADABLE_ERRORS as exc:
        raise CorruptFile from exc
    return summaries

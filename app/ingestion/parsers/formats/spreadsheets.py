"""Parser of Excel workbooks (XLSX, XLSM, XLSB, XLS): the rows of each visible sheet become tables or records."""

import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

from app.documents.upload.ole import SIGNATURE, read_entry_names
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.workbooks.cell_rows import iter_text_rows
from app.ingestion.parsers.formats.workbooks.unread_parts import UnreadParts
from app.ingestion.parsers.formats.workbooks.xls_workbook import XlsWorkbook, read_xls_workbook
from app.ingestion.parsers.formats.workbooks.xlsx_source import XlsxSource, scan_sheets
from app.ingestion.parsers.formats.workbooks.xlsx_workbook import drop_unknown_sheets
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.places import number_rows
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument
from app.warnings import WarningCode

_PASSWORD_RECORD = re.compile(
    rb"\x09\x08(?:\x08\0\0\x05\x05\0.{4}|\x10\0\0\x06\x05\0.{12})(?:\x86\0\0\0)?\x2f\0", re.DOTALL
)
"""Start of a workbook that has the record FILEPASS ([MS-XLS] 2.4.117), which marks encryption."""

_OTHER_SHEETS = (
    (SheetTypeEnum.MacroSheet, "macro"),
    (SheetTypeEnum.DialogSheet, "dialog"),
    (SheetTypeEnum.ChartSheet, "chart"),
)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a workbook. The name of each sheet becomes a heading of level 1.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, sheet by sheet. Sheet numbers include hidden sheets.

    Raises:
        CorruptFile: The workbook is damaged, and no sheet can be read.
        EncryptedFile: The workbook has a password.
        TextTooLong: A sheet covers too many cells, or the file has more bytes or text than the limits allow.
    """
    unread, blocks = UnreadParts(), BlockList(options)
    with ExitStack() as stack:
        if _is_ole(path):
            _check_unlocked(path)
            workbook = _open_workbook(path, unread)
            _add_sheets(workbook, read_xls_workbook(path.read_bytes()), blocks, unread)
        else:
            check_archive(path)
            summaries = scan_sheets(path)
            workbook = _open_workbook(path, unread)
            source = XlsxSource(stack.enter_context(zipfile.ZipFile(path)), summaries)
            source.count_parts(unread)
            _add_sheets(workbook, source, blocks, unread)
    if unread.counts[WarningCode.DAMAGED_SHEETS_NOT_READ] and not blocks.blocks:
        raise CorruptFile
    return ParsedDocument(blocks.blocks, warnings=unread.list_warnings())


def _is_ole(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def _check_unlocked(path: Path) -> None:
    """Raise EncryptedFile if a file with the signature of XLS has a password.

    Excel stores an XLSX workbook with a password in such a file. In an XLS workbook, an early record marks a password.
    """
    if "EncryptedPackage" in read_entry_names(path) or _PASSWORD_RECORD.search(path.read_bytes()):
        raise EncryptedFile


def _open_workbook(path: Path, unread: UnreadParts) -> CalamineWorkbook:
    """Open a workbook with the library. Sheets that make the library refuse a whole XLSX workbook are left out."""
    try:
        with path.open("rb") as file, _translate_errors():
            return CalamineWorkbook.from_filelike(file)
    except CorruptFile:
        reduced = None if _is_ole(path) else drop_unknown_sheets(path)
        if reduced is None:
            raise
    copy, unread.other_sheets["macro"] = reduced
    with _translate_errors():
        return CalamineWorkbook.from_filelike(copy)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (CalamineError, OverflowError) as exc:  # OverflowError: a duration of millions of years
        raise CorruptFile from exc
    except BaseException as exc:
        # A panic of the Rust library is not an Exception, and its class cannot be imported.
        if type(exc).__name__ == "PanicException":
            raise CorruptFile from exc
        raise


def _add_sheets(
    workbook: CalamineWorkbook, source: XlsxSource | XlsWorkbook, blocks: BlockList, unread: UnreadParts
) -> None:
    for index, metadata in enumerate(workbook.sheets_metadata):
        chart_lines = source.list_chart_lines(index) if metadata.typ == SheetTypeEnum.ChartSheet else []
        if metadata.visible != SheetVisibleEnum.Visible:
            unread.counts[WarningCode.HIDDEN_SHEETS_NOT_READ] += metadata.typ != SheetTypeEnum.Vba
        elif chart_lines:
            _add_lines(metadata.name, chart_lines, index, blocks)
        elif metadata.typ == SheetTypeEnum.WorkSheet:
            try:
                with _translate_errors():
                    _add_sheet(workbook.get_sheet_by_index(index), source, index, blocks, unread)
            except CorruptFile:
                unread.counts[WarningCode.DAMAGED_SHEETS_NOT_READ] += 1
        else:
            unread.other_sheets.update(name for kind, name in _OTHER_SHEETS if metadata.typ == kind)
    lines = [f"{name}: {value}" for name, value in source.constants.items()]
    blocks.add(BlockKind.PARAGRAPH, "\n".join(lines))


def _add_sheet(
    sheet: CalamineSheet, source: XlsxSource | XlsWorkbook, index: int, blocks: BlockList, unread: UnreadParts
) -> None:
    cells, lines = source.read_sheet(index, unread)
    rows = number_rows(iter_text_rows(sheet, cells))
    first = next(filter(any, rows), None)
    if first is not None:
        blocks.add(BlockKind.HEADING, sheet.name, level=1, sheet=index + 1)
        add_rows(chain([first], rows), blocks, sheet=index + 1)
    _add_lines("" if first else sheet.name, lines, index, blocks)


def _add_lines(name: str, lines: list[str], index: int, blocks: BlockList) -> None:
    if lines:
        blocks.add(BlockKind.HEADING, name, level=1, sheet=index + 1)
    for line in lines:
        blocks.add(BlockKind.PARAGRAPH, line, sheet=index + 1)

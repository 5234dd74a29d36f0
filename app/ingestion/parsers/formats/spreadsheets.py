"""Parser of Excel workbooks (XLSX, XLS): the rows of each visible sheet become tables or records."""

import datetime
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

from app.documents.upload.ole import SIGNATURE, read_entry_names
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.types import BlockKind, CorruptFile, EncryptedFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning, WarningCode

MAX_CELLS = 16 << 20
"""Maximum number of cells in the area from the first cell of a sheet to its last cell, as in the XLS format.

The library python-calamine allocates 32 bytes for each cell of the area.
"""

_MAX_EXACT_FLOAT = 1 << 53
CellValue = int | float | str | bool | datetime.time | datetime.date | datetime.datetime | datetime.timedelta

_PASSWORD_RECORD = re.compile(
    rb"\x09\x08(?:\x08\0\0\x05\x05\0.{4}|\x10\0\0\x06\x05\0.{12})(?:\x86\0\0\0)?\x2f\0", re.DOTALL
)
"""Start of a workbook that has the record FILEPASS ([MS-XLS] 2.4.117), which marks encryption."""

_CELL = re.compile(rb"""<(?:\w+:)?c\s(?:[^<>]*?\s)?r=["']([A-Z]{1,3})(\d{1,7})["'][^<>]*(?<!/)>""")
_READ_BYTES = 1 << 20
_UNREADABLE_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, RuntimeError, EOFError, OSError)


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
    with path.open("rb") as file:
        if file.read(len(SIGNATURE)) == SIGNATURE:
            _check_unlocked(path)
        else:
            check_archive(path)
            _check_extents(path)
        file.seek(0)
        with _translate_errors():
            workbook = CalamineWorkbook.from_filelike(file)
    blocks, hidden, damaged = BlockList(options), 0, 0
    for number, metadata in enumerate(workbook.sheets_metadata, start=1):
        if metadata.typ != SheetTypeEnum.WorkSheet:
            continue
        if metadata.visible != SheetVisibleEnum.Visible:
            hidden += 1
            continue
        try:
            with _translate_errors():
                _add_sheet(workbook.get_sheet_by_index(number - 1), number, blocks)
        except CorruptFile:
            damaged += 1
    if damaged and not blocks.blocks:
        raise CorruptFile
    warnings = [
        *_list_unread_warnings(hidden, "hidden", WarningCode.HIDDEN_SHEETS_NOT_READ),
        *_list_unread_warnings(damaged, "damaged", WarningCode.DAMAGED_SHEETS_NOT_READ),
    ]
    return ParsedDocument(blocks.blocks, warnings=warnings)


def _list_unread_warnings(count: int, condition: str, code: WarningCode) -> list[ServiceWarning]:
    if not count:
        return []
    message = f"1 {condition} sheet was not read." if count == 1 else f"{count} {condition} sheets were not read."
    return [ServiceWarning(code, message)]


def _check_unlocked(path: Path) -> None:
    """Raise EncryptedFile if a file with the signature of XLS has a password.

    Excel stores an XLSX workbook with a password in such a file. In an XLS workbook, an early record marks a password.
    """
    if "EncryptedPackage" in read_entry_names(path) or _PASSWORD_RECORD.search(path.read_bytes()):
        raise EncryptedFile


def _check_extents(path: Path) -> None:
    """Raise TextTooLong if the cells of a sheet cover a larger area than ``MAX_CELLS``.

    The library allocates memory for the whole area, and a sheet can declare 17 billion cells. Cells without a value do
    not count: a distant cell that has only a format is common and harmless.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if "worksheets/" in member.filename.lower() and member.filename.lower().endswith(".xml"):
                    with archive.open(member) as file:
                        _check_extent(file)
    except _UNREADABLE_ERRORS as exc:
        raise CorruptFile from exc


def _check_extent(file: IO[bytes]) -> None:
    last_row, last_column, remainder = 0, 0, b""
    while piece := file.read(_READ_BYTES):
        piece = remainder + piece
        end = piece.rfind(b"<")
        piece, remainder = piece[:end], piece[end:][:_READ_BYTES]
        cells = _CELL.findall(piece)
        if cells:
            last_row = max(last_row, *(int(row) for _, row in cells))
            last_column = max(last_column, *map(_parse_column, {letters for letters, _ in cells}))
        if last_row * last_column > MAX_CELLS:
            raise TextTooLong("The cells of a sheet are too far apart; remove the outlying cells.")


def _parse_column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


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


def _add_sheet(sheet: CalamineSheet, number: int, blocks: BlockList) -> None:
    rows = ([_format_value(value) for value in row] for row in sheet.iter_rows())
    first = next(filter(any, rows), None)
    if first is not None:
        blocks.add(BlockKind.HEADING, sheet.name, level=1, sheet=number)
        add_rows(chain([first], rows), blocks, sheet=number)


def _format_value(value: CellValue) -> str:
    """Return a value as text: numbers without rounding errors, dates in ISO 8601."""
    match value:
        case str():
            return value.strip()
        case bool():
            return str(value).upper()
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < _MAX_EXACT_FLOAT else f"{value:.15g}"
        case datetime.datetime():
            is_midnight = value.time() == datetime.time()
            return value.date().isoformat() if is_midnight else value.isoformat(" ", "seconds")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            minutes, seconds = divmod(round(value.total_seconds()), 60)
            return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
        case _:
            return str(value)

"""Excel workbooks: sheets, values, unread parts, and files with false declarations."""

from __future__ import annotations

import datetime
import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import spreadsheets
from app.ingestion.types import (
    BlockKind,
    CorruptFile,
    EncryptedFile,
    IngestionError,
    NoTextFound,
    ParserCrashed,
    TextTooLong,
)
from app.warnings import ServiceWarning
from tests.ingestion.parsers.workbooks import DATE, DATE_TIME, DURATION, Value, cell, sheet, worksheet, write

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XLS = "application/vnd.ms-excel"
HEADING, PARAGRAPH, TABLE, RECORD = BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.TABLE, BlockKind.RECORD
FAR = worksheet(
    f'<sheetData><row r="1">{cell("A1", 1)}</row><row r="1048576">{cell("XFD1048576", 2)}</row></sheetData>'
)


@pytest.mark.capability("format-xlsx")
@pytest.mark.parametrize("name", ["workbook.xlsx", "workbook.xls"])
def test_excel_sheets_of_real_workbook_are_read(name: str, samples: Path, options: ParseOptions) -> None:
    document = spreadsheets.parse(samples / name, options)
    assert [(block.kind, block.sheet, block.text) for block in document.blocks] == [
        (HEADING, 1, "Cars"),
        (
            TABLE,
            1,
            "Rental fleet, spring 2024\n"
            "| Model | In service | Price | Electric | Last wash | Hours | Per km |\n"
            "| --- | --- | --- | --- | --- | --- | --- |\n"
            "| Größe M | 2024-05-01 | 0.3 | TRUE | 2024-05-02 13:45 | 36:30 | #DIV/0! |\n"
            "| Transporter | 2023-11-30 | 49 | FALSE | 2024-05-03 08:00 | 8:15 | 0.25 |",
        ),
        (HEADING, 4, "FAQ"),
        (RECORD, 4, "Question: Can I return late?\nAnswer: Yes, within 29 minutes."),
        (RECORD, 4, "Question: Muss ich Benzin bezahlen?\nAnswer: Only for what is missing: 汽油"),
    ]
    assert document.warnings == [ServiceWarning("hidden_sheets_not_read", "1 hidden sheet was not read.", 1)]
    assert (document.title, document.page_count) == (None, None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("  two  words ", "two words"),
        (1.0, "1"),
        (-3, "-3"),
        (0.1 + 0.2, "0.3"),
        (1234567890123456, "1234567890123456"),
        (1e300, "1e+300"),
        (True, "TRUE"),
        (False, "FALSE"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 23, 59, 58), "2024-02-29 23:59:58"),
        (datetime.datetime(2024, 2, 29), "2024-02-29"),
        (datetime.timedelta(hours=49, minutes=5, seconds=6), "49:05:06"),
        ("=1+1", "=1+1"),
    ],
    ids=str,
)
def test_excel_values_are_formatted(value: Value, shown: str, tmp_path: Path, options: ParseOptions) -> None:
    path = write(tmp_path / "book", {"S": sheet([[value]])})
    assert [block.text for block in spreadsheets.parse(path, options).blocks] == ["S", shown]


def test_excel_formula_shows_value_and_merged_cell_appears_once(tmp_path: Path, options: ParseOptions) -> None:
    formula = '<c r="B3" t="str"><f>UPPER("x")</f><v>R&amp;D</v></c>'
    grid = sheet([["Costs", None, None], ["Where", "What", "Who"], ["Berlin", None, "Ada"]], merged="A1:C1")
    path = write(tmp_path / "book", {"S": grid.replace(cell("C3", "Ada"), formula + cell("C3", "Ada"))})
    assert [block.text for block in spreadsheets.parse(path, options).blocks] == [
        "S",
        "Costs\n| Where | What | Who |\n| --- | --- | --- |\n| Berlin | R&D | Ada |",
    ]


@pytest.mark.parametrize("number", ["-5", "NaN", "2958466", "1E10", "1e400", "99999999999999999999"])
@pytest.mark.parametrize("style", [DATE, DATE_TIME, DURATION], ids=["date", "time", "duration"])
def test_excel_invalid_date_is_handled(number: str, style: int, tmp_path: Path, options: ParseOptions) -> None:
    row = f'<c r="A1" s="{style}"><v>{number}</v></c>'
    sheets = {"Odd": worksheet(f'<sheetData><row r="1">{row}</row></sheetData>'), "Fine": sheet([["fine"]])}
    document = spreadsheets.parse(write(tmp_path / "book", sheets), options)
    assert [block.text for block in document.blocks][-2:] == ["Fine", "fine"]
    assert len(document.blocks) == 4 or document.warnings == [
        ServiceWarning("damaged_sheets_not_read", "1 damaged sheet was not read.", 1)
    ]


def test_excel_hidden_and_empty_sheets_are_left_out(tmp_path: Path, options: ParseOptions) -> None:
    names = ["hidden", "very hidden", "nothing", "blank", "last"]
    sheets = {name: sheet([[name]]) for name in names} | {"nothing": sheet([]), "blank": sheet([[" "]])}
    path = write(tmp_path / "book", sheets, states={"hidden": "hidden", "very hidden": "veryHidden"})
    document = spreadsheets.parse(path, options)
    assert [(block.kind, block.text, block.sheet) for block in document.blocks] == [
        (HEADING, "last", 5),
        (PARAGRAPH, "last", 5),
    ]
    assert document.warnings == [ServiceWarning("hidden_sheets_not_read", "2 hidden sheets were not read.", 2)]


def test_excel_damaged_sheet_leaves_others(tmp_path: Path, options: ParseOptions) -> None:
    broken = worksheet('<sheetData><row r="1"><c r="A1" t="s"><v>7</v></c></row></sheetData>')
    document = spreadsheets.parse(write(tmp_path / "book", {"A": broken, "B": sheet([["fine"]])}), options)
    assert [block.text for block in document.blocks] == ["B", "fine"]
    assert document.warnings == [ServiceWarning("damaged_sheets_not_read", "1 damaged sheet was not read.", 1)]
    with pytest.raises(CorruptFile):
        spreadsheets.parse(write(tmp_path / "book", {"A": broken}), options)


def test_excel_distant_cells_are_refused_unread(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(TextTooLong):
        spreadsheets.parse(write(tmp_path / "book", {"S": FAR}), options)


def test_excel_distant_format_is_no_cell(tmp_path: Path, options: ParseOptions) -> None:
    grid = FAR.replace(cell("XFD1048576", 2), '<c r="XFD1048576" s="1"/>')
    assert [block.text for block in spreadsheets.parse(write(tmp_path / "book", {"S": grid}), options).blocks] == [
        "S",
        "1",
    ]


async def test_excel_undetected_distant_cells_end_only_their_process(
    tmp_path: Path, pool: ParserPool, samples: Path
) -> None:
    """The library aborts the whole process when memory runs out; the next document gets a new process."""
    path = write(tmp_path / "book", {"S": FAR})
    moved = tmp_path / "moved"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(moved, "w") as new:
        for name in old.namelist():
            new.writestr(name.replace("worksheets/", "tables/"), old.read(name).replace(b"worksheets/", b"tables/"))
    with pytest.raises(ParserCrashed):
        await pool.parse(moved, XLSX)
    assert len((await pool.parse(samples / "workbook.xls", XLS)).blocks) == 5


def test_excel_too_many_characters_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book", {"S": sheet([["word " * 20]] * 20)})
    with pytest.raises(TextTooLong):
        spreadsheets.parse(path, ParseOptions(None, max_pages=100, max_characters=1000))


def test_excel_bomb_is_refused_before_unpacking(tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "bomb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("xl/workbook.xml", "w") as member:
        for _ in range(64):
            member.write(bytes(1 << 20))
    with pytest.raises(TextTooLong):
        spreadsheets.parse(path, options)


def container(*names: str) -> bytes:
    """Return an OLE container whose directory has these names and no streams."""
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<9I", 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0, 0) + b"\xff" * 432
    table = struct.pack("<2I", 0xFFFFFFFD, 0xFFFFFFFE) + b"\xff" * 504
    entries = b"".join(
        name.encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<H2B", 2 * len(name) + 2, 2, 1)
        + b"\xff" * 12
        + bytes(48)
        for name in ("Root Entry", *names)
    )
    return header + table + entries.ljust(512, b"\0")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (container("EncryptionInfo", "EncryptedPackage"), EncryptedFile),
        (container("WordDocument"), CorruptFile),
        (container(), CorruptFile),
        (b"", CorruptFile),
        (b"PK\x03\x04", CorruptFile),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", CorruptFile),
        (b"name;price\n", CorruptFile),
    ],
    ids=["locked", "document", "container", "empty", "zip", "ole", "text"],
)
def test_excel_other_content_is_refused(
    content: bytes, error: type[IngestionError], tmp_path: Path, options: ParseOptions
) -> None:
    path = tmp_path / "book"
    path.write_bytes(content)
    with pytest.raises(error):
        spreadsheets.parse(path, options)


def test_excel_encrypted_old_workbook_is_refused(samples: Path, options: ParseOptions) -> None:
    with pytest.raises(EncryptedFile):
        spreadsheets.parse(samples / "encrypted.xls", options)


@pytest.mark.parametrize("name", ["workbook.xlsx", "workbook.xls"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_excel_truncated_workbook_is_corrupt(
    name: str, share: float, samples: Path, tmp_path: Path, options: ParseOptions
) -> None:
    content = (samples / name).read_bytes()
    path = tmp_path / "book"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CorruptFile):
        spreadsheets.parse(path, options)


@pytest.mark.parametrize(
    ("name", "media_type", "blocks"), [("workbook.xlsx", XLSX, 5), ("workbook.xls", XLS, 5)], ids=["xlsx", "xls"]
)
async def test_excel_workbooks_are_parsed_in_process(
    name: str, media_type: str, blocks: int, samples: Path, pool: ParserPool
) -> None:
    assert len((await pool.parse(samples / name, media_type)).blocks) == blocks


async def test_excel_workbook_without_cells_has_no_text(tmp_path: Path, pool: ParserPool) -> None:
    with pytest.raises(NoTextFound):
        await pool.parse(write(tmp_path / "book", {"S": sheet([])}), XLSX)

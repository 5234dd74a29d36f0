"""CSV: delimiters, quotes, encodings, and files that are not CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import csv_table
from app.ingestion.types import BlockKind, CorruptFile, NoTextFound, ParsedDocument, TextTooLong

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

CARS = [["Model", "Ort", "Preis"], ["Größe M", "München", "49,5"], ["Größe L", "Köln", "120"]]
TABLE = "| Model | Ort | Preis |\n| --- | --- | --- |\n| Größe M | München | 49,5 |\n| Größe L | Köln | 120 |"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def parsed(path: Path, content: str | bytes, options: ParseOptions) -> ParsedDocument:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return csv_table.parse(path, options)


def texts(document: ParsedDocument) -> list[str]:
    return [block.text for block in document.blocks]


@pytest.mark.capability("format-csv")
@pytest.mark.parametrize("quoted", [False, True], ids=["bare", "quoted"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old-mac"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"], ids=["comma", "semicolon", "tab", "bar"])
def test_csv_delimiters_are_detected(delimiter: str, end: str, quoted: bool, path: Path, options: ParseOptions) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(
            file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
        ).writerows(CARS)
    document = csv_table.parse(path, options)
    assert [(block.kind, block.text, block.sheet) for block in document.blocks] == [(BlockKind.TABLE, TABLE, None)]
    assert (document.title, document.page_count, document.warnings) == (None, None, [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_csv_encodings_are_detected(encoding: str, path: Path, options: ParseOptions) -> None:
    content = "\n".join(";".join(row) for row in CARS).encode(encoding)
    assert texts(parsed(path, content, options)) == [TABLE]


def test_csv_declared_encoding_is_used(path: Path) -> None:
    options = ParseOptions("cp1253", max_pages=1, max_characters=1000)
    assert texts(parsed(path, "Όνομα,Πόλη\nΝίκος,Αθήνα\n".encode("cp1253"), options)) == [
        "| Όνομα | Πόλη |\n| --- | --- |\n| Νίκος | Αθήνα |"
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('a,b\n"x, y","two\nlines ""quoted"""\n', ["| a | b |\n| --- | --- |\n| x, y | two lines \"quoted\" |"]),
        ("a, b\n1, \"x, y\"\n", ["| a | b |\n| --- | --- |\n| 1 | x, y |"]),
        ("sep=;\na;b,c\n1;2,3\n", ["| a | b,c |\n| --- | --- |\n| 1 | 2,3 |"]),
        ("\ufeffSEP=|\na|b\n1|2\n", ["| a | b |\n| --- | --- |\n| 1 | 2 |"]),
        ("\"sep=^\"\na^b\n1^2\n", ["| a | b |\n| --- | --- |\n| 1 | 2 |"]),
        ("a,b\n1\n2,3,4\n", ["| a | b | |\n| --- | --- | --- |\n| 1 | | |\n| 2 | 3 | 4 |"]),
        ("Bank\n\nvon;bis\n\nname;sum\nx;1,5\ny;2,5\n",
         ["Bank", "von\nbis", "| name | sum |\n| --- | --- |\n| x | 1,5 |\n| y | 2,5 |"]),
        ("a,b\n,\n,,\n", ["a\nb"]),
        ("word\nother\n", ["word", "other"]),
        ("name,city\nNina,Par\0is\n", ["| name | city |\n| --- | --- |\n| Nina | Paris |"]),
        ('a,b\n1,"never closed\n2,3\n', ["| a | b |\n| --- | --- |\n| 1 | never closed 2,3 |"]),
        ("sep=", ["sep="]),
        ("", []),
        (" \n\n,,\n", []),
    ],
    ids=[
        "quotes", "space-before-quote", "declared", "declared-bar", "declared-quoted", "ragged", "preamble",
        "empty-rows", "one-column", "nul", "open-quote", "declares-nothing", "empty", "blank",
    ],
)  # fmt: skip
def test_csv_unusual_shapes_are_read(content: str, expected: list[str], path: Path, options: ParseOptions) -> None:
    assert texts(parsed(path, content, options)) == expected


def test_csv_questions_and_answers_are_records(path: Path, options: ParseOptions) -> None:
    document = parsed(path, 'id,question,answer\n1,"When, and where?","Today.\n\nHere."\n2,Why?,So.\n', options)
    assert [(block.kind, block.text) for block in document.blocks] == [
        (BlockKind.RECORD, "Question: When, and where?\nAnswer: Today.\n\nHere.\nId: 1"),
        (BlockKind.RECORD, "Question: Why?\nAnswer: So.\nId: 2"),
    ]


def test_csv_long_field_is_read_up_to_limit(path: Path, options: ParseOptions) -> None:
    field = "x" * 150_000  # more than the default limit of the csv module
    assert texts(parsed(path, f"a,b\n1,{field}\n", options)) == [f"A: 1\nB: {field}"]
    with pytest.raises(TextTooLong):
        parsed(path, f"a,b\n1,{field}{field}\n", options)
    small = ParseOptions(None, max_pages=1, max_characters=1000)
    with pytest.raises(TextTooLong):
        parsed(path, f"a,b\n1,{field}\n", small)


@pytest.mark.parametrize("content", [bytes(range(256)) * 40, bytes(4000)], ids=["random", "zeros"])
def test_csv_binary_file_is_corrupt(content: bytes, path: Path, options: ParseOptions) -> None:
    with pytest.raises(CorruptFile):
        parsed(path, content, options)


async def test_csv_is_parsed_in_process(path: Path, pool: ParserPool) -> None:
    path.write_text("name\tcity\nAda\tLondon\n")
    assert len((await pool.parse(path, "text/csv")).blocks) == 1
    path.write_text(",,\n\n")
    with pytest.raises(NoTextFound):
        await pool.parse(path, "text/csv")

"""PDF: reading order, headings, tables, running headers, damage."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.types import BlockKind, CorruptFile


@pytest.mark.capability("format-pdf")
def test_pdf_handbook_has_headings_tables_and_no_running_headers(demo: Path, options: ParseOptions) -> None:
    document = pdf_parser.parse(demo / "handbook.pdf", options)
    text = "\n".join(block.text for block in document.blocks)
    headings = [(block.level, block.text, block.page) for block in document.blocks if block.kind is BlockKind.HEADING]
    tables = [block for block in document.blocks if block.kind is BlockKind.TABLE]
    assert document.title == "Northwind Rentals handbook"
    assert (1, "Booking and cancellation policy", 2) in headings
    assert (2, "Cancelling a one-way rental", 3) in headings
    assert text.count("Rental handbook 2026") == 1
    assert "Page 3 of 8" not in text
    assert "the one-way fee is refunded only when the booking is cancelled at least 72 hours before pickup" in text
    assert [table.page for table in tables] == [3, 5, 7]
    assert tables[0].text.splitlines()[1:3] == ["| --- | --- | --- |", "| up to 100 km | 39 euros | 120 euros |"]
    assert [warning.code for warning in document.warnings] == ["repeated_lines_removed"]


@pytest.mark.capability("format-pdf-columns")
@pytest.mark.parametrize("name", ["two_columns.pdf", "owner_password.pdf"])
def test_pdf_columns_are_read_in_order(name: str, samples: Path, options: ParseOptions) -> None:
    title, left, right = pdf_parser.parse(samples / name, options).blocks
    assert (title.kind, title.text) == (BlockKind.HEADING, "Harbours and mountains in one document")
    assert left.text.count("The left column tells of harbours.") == 6
    assert "mountain" not in left.text
    assert right.text.count("Whoever comes late finds soup on the stove.") == 6


def test_pdf_outline_marks_headings(samples: Path, options: ParseOptions) -> None:
    document = pdf_parser.parse(samples / "outline.pdf", options)
    headings = [(block.level, block.text, block.page) for block in document.blocks if block.kind is BlockKind.HEADING]
    assert headings == [(1, "1 First chapter", 1), (2, "2 A part of it", 2), (1, "3 Second chapter", 3)]


def test_pdf_truncated_file_is_repaired_with_warning(demo: Path, tmp_path: Path, options: ParseOptions) -> None:
    data = (demo / "handbook.pdf").read_bytes()
    path = tmp_path / "cut.pdf"
    path.write_bytes(data[: len(data) - 400])
    document = pdf_parser.parse(path, options)
    assert document.warnings[0].code == "file_repaired"
    assert document.page_count == 8


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\n", b"%PDF-1.7\n" + bytes(5000), b"not a pdf at all"])
def test_pdf_other_content_is_corrupt(content: bytes, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "bad.pdf"
    path.write_bytes(content)
    with pytest.raises(CorruptFile):
        pdf_parser.parse(path, options)

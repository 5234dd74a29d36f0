"""Headings of PDF files: bold lines in the size of the body, larger fonts, and what is no heading."""

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from app.ingestion.types import BlockKind
from tests.ingestion.parsers.pdf_files import PROSE, parse_pdf


def write_styled(path: Path, lines: list[tuple[str, str, float]], *, outline: list[list[Any]] | None = None) -> Path:
    """Write a page of lines with their font names and sizes, 24 points apart."""
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    for number, (text, font, size) in enumerate(lines):
        page.insert_text((72, 60 + 24 * number), text, fontname=font, fontsize=size)
    if outline:
        document.set_toc(outline)
    document.save(path)
    document.close()
    return path


def body(count: int = 3) -> list[tuple[str, str, float]]:
    return [(f"{line} This goes on for a while, so that most text is prose.", "helv", 11) for line in PROSE[:count]]


def read_headings(path: Path) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in parse_pdf(path).blocks if block.kind is BlockKind.HEADING]


@pytest.mark.parametrize(
    "title",
    ["Opening hours", "Item 1A. Risk Factors", "Note 3: Revenue of the year", "WHO MAY USE THE FERRY",
     "2.1 Fees and fines", "What does it cost to park a car overnight"],
)  # fmt: skip
def test_bold_line_in_size_of_body_is_heading(title: str, tmp_path: Path) -> None:
    path = write_styled(tmp_path / "a.pdf", [*body(), (title, "hebo", 11), *body()])
    assert [text for _, text in read_headings(path)] == [title]


@pytest.mark.parametrize(
    ("text", "font"),
    [
        ("The ferry does not run on the first of January.", "hebo"),
        ("January 15, 2024", "hebo"),
        ("15 March 2024", "hebo"),
        ("• Bring your ticket", "hebo"),
        ("¹ Includes all fees", "hebo"),
        ("Name:", "hebo"),
        ("Total 1,234 5,678 9,012", "hebo"),
        ("Write to help@example.com", "hebo"),
        ("Opening hours", "helv"),
        ("Signature ______________", "hebo"),
        (
            "This bold sentence is much longer than any title, since it says at length what a reader has to do now",
            "hebo",
        ),
    ],
)
def test_line_that_is_no_title_is_no_heading(text: str, font: str, tmp_path: Path) -> None:
    path = write_styled(tmp_path / "a.pdf", [*body(), (text, font, 11), *body()])
    assert read_headings(path) == []


def test_line_with_bold_start_is_no_heading(tmp_path: Path) -> None:
    fitz: Any = pymupdf
    document = fitz.open()
    page = document.new_page()
    page.insert_text((72, 60), "Deadline", fontname="hebo", fontsize=11)
    width = pymupdf.get_text_length("Deadline ", fontname="hebo", fontsize=11)
    page.insert_text((72 + width, 60), "is the end of the month after the order", fontsize=11)
    for number, (text, font, size) in enumerate(body()):
        page.insert_text((72, 84 + 24 * number), text, fontname=font, fontsize=size)
    document.save(tmp_path / "a.pdf")
    assert read_headings(tmp_path / "a.pdf") == []


def test_bold_file_has_no_bold_headings(tmp_path: Path) -> None:
    lines = [(text, "hebo", size) for text, _, size in body()]
    assert read_headings(write_styled(tmp_path / "a.pdf", [("Opening hours", "hebo", 11), *lines])) == []


def test_levels_follow_size_then_capitals_then_bold(tmp_path: Path) -> None:
    lines = [
        ("Harbour handbook", "hebo", 22), *body(1), ("Boats", "hebo", 16), *body(2),
        ("FARES AND FEES", "hebo", 11), *body(2),
        ("Children and dogs", "hebo", 11), *body(3), ("3.2.1 Small dogs", "hebo", 11), *body(2),
    ]  # fmt: skip
    levels = read_headings(write_styled(tmp_path / "a.pdf", lines))
    assert levels == [
        (1, "Harbour handbook"), (2, "Boats"), (3, "FARES AND FEES"), (4, "Children and dogs"), (5, "3.2.1 Small dogs"),
    ]  # fmt: skip


def test_title_of_the_file_is_real_or_a_heading(tmp_path: Path) -> None:
    fitz: Any = pymupdf
    for metadata, expected in (
        ("Microsoft Word - a.doc", "Harbour handbook"),
        ("Rules of the harbour", "Rules of the harbour"),
    ):
        path = write_styled(tmp_path / "b.pdf", [("FORM 10-Q", "hebo", 22), ("Harbour handbook", "hebo", 18), *body()])
        with fitz.open(path) as document:
            document.set_metadata({"title": metadata})
            document.save(tmp_path / "c.pdf")
        assert parse_pdf(tmp_path / "c.pdf").title == expected

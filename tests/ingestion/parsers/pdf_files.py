"""PDF files that the tests write with PyMuPDF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pymupdf

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.types import ParsedDocument

OPTIONS = ParseOptions(None, max_pages=200, max_characters=2_000_000)

PROSE = (
    "The harbour office opens at eight in the morning.",
    "Visitors find the timetable of all ferries on the wall.",
    "Bicycles may be taken along without a ticket.",
    "In winter the last boat leaves one hour earlier.",
)
"""Lines of prose below a header, different from any header of the tests."""


def write_pages(path: Path, pages: Iterable[Sequence[tuple[Any, ...]]]) -> Path:
    """Write a PDF file of A4 pages with lines in Helvetica.

    Args:
        path: File to write.
        pages: For each page its lines: x, y of the base line, text, and font size (11 points if it is left out).
    """
    fitz: Any = pymupdf
    document = fitz.open()
    for lines in pages:
        page = document.new_page(width=595, height=842)
        for x, y, text, *size in lines:
            page.insert_text((x, y), text, fontsize=size[0] if size else 11)
    document.save(path)
    document.close()
    return path


def prose(page: int, y: float = 150) -> list[tuple[Any, ...]]:
    """Return four lines of prose that differ from page to page."""
    return [(72, y + 16 * number, f"{line} {page * 7 + number} boats.") for number, line in enumerate(PROSE)]


def parse_pdf(path: Path) -> ParsedDocument:
    """Parse a file with the limits of the tests."""
    return pdf_parser.parse(path, OPTIONS)


def read_text(path: Path) -> str:
    """Return the texts of all blocks, one per line."""
    return "\n".join(block.text for block in parse_pdf(path).blocks)

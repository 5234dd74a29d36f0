"""Running headers, footers and page numbers of PDF files, and overprinted text."""

from pathlib import Path

import pytest

from app.ingestion.types import ParsedDocument
from tests.ingestion.parsers.pdf_files import parse_pdf, prose, read_text, write_pages

ROMAN = ["i", "ii", "iii", "iv", "v", "vi"]


def write_headers(path: Path, headers: list[str], *, y: float = 40, x: float = 72) -> Path:
    return write_pages(path, [[(x, y, header), *prose(page)] for page, header in enumerate(headers)])


def find_removed(document: ParsedDocument) -> int:
    return sum(warning.count or 0 for warning in document.warnings if warning.code == "repeated_lines_removed")


@pytest.mark.parametrize(
    "headers",
    [
        [f"Invoice No. {1000 + page}" for page in range(1, 7)],
        [f"Invoice {page}" for page in range(1, 7)],
        [f"Customer: {page}" for page in range(1, 7)],
        [f"{day}.05.2024" for day in range(1, 7)],
        [f"Chapter {name}" for name in ("Ropes", "Sails", "Masts", "Anchors", "Rudders", "Lights")],
        [f"Exhibit {letter}" for letter in "ABCDEF"],
        [f"Order no. | {page}" for page in range(1, 7)],
        [f"Amount due: {100 + 7 * page}.00 EUR" for page in range(1, 7)],
        [str(1000 + page) for page in range(1, 7)],
    ],
)
def test_headers_that_differ_stay(headers: list[str], tmp_path: Path) -> None:
    path = write_headers(tmp_path / "a.pdf", headers)
    text = read_text(path)
    assert [header for header in headers if header not in text] == []
    assert parse_pdf(path).warnings == []


@pytest.mark.parametrize("y", [40, 815])
@pytest.mark.parametrize(
    "numbers",
    [
        [f"Page {page} of 6" for page in range(1, 7)],
        [f"{page} / 6" for page in range(1, 7)],
        [f"- {page} -" for page in range(1, 7)],
        [f"Seite {page} von 6" for page in range(1, 7)],
        [f"Page {number}" for number in ROMAN],
        [f"F-{page}" for page in range(11, 17)],
        [str(page) for page in range(3, 9)],
    ],
)
def test_page_numbers_are_left_out_and_counted(numbers: list[str], y: float, tmp_path: Path) -> None:
    path = write_headers(tmp_path / "a.pdf", numbers, y=y)
    document = parse_pdf(path)
    assert [number for number in numbers if number in [block.text for block in document.blocks]] == []
    assert document.warnings[0].message == "6 repeated header or footer lines were left out."
    assert find_removed(document) == 6


def test_page_numbers_of_two_pages_are_left_out(tmp_path: Path) -> None:
    document = parse_pdf(write_headers(tmp_path / "a.pdf", ["Page 1 of 2", "Page 2 of 2"]))
    assert find_removed(document) == 2


def test_equal_header_is_left_out_but_once(tmp_path: Path) -> None:
    path = write_headers(tmp_path / "a.pdf", ["Harbour handbook 2026"] * 6)
    assert read_text(path).count("Harbour handbook 2026") == 1
    assert find_removed(parse_pdf(path)) == 5


def test_headers_of_left_and_right_pages_are_left_out_but_once(tmp_path: Path) -> None:
    headers = [f"{page} | Harbour handbook" if page % 2 else f"Ropes and sails | {page}" for page in range(1, 9)]
    text = read_text(write_headers(tmp_path / "a.pdf", headers))
    assert (text.count("Harbour handbook"), text.count("Ropes and sails")) == (1, 1)


def test_page_number_in_the_row_of_an_invoice_number_is_left_out(tmp_path: Path) -> None:
    pages = [
        [(72, 40, f"Invoice No. {1000 + page}"), (480, 40, f"Page {page} of 6"), *prose(page)] for page in range(1, 7)
    ]
    text = read_text(write_pages(tmp_path / "a.pdf", pages))
    assert "Invoice No. 1003" in text
    assert "Page 3 of 6" not in text


def test_chapter_titles_of_several_pages_stay_once(tmp_path: Path) -> None:
    headers = [name for name in ("Ropes and knots", "Sails and wind") for _ in range(4)]
    text = read_text(write_headers(tmp_path / "a.pdf", headers))
    assert (text.count("Ropes and knots"), text.count("Sails and wind")) == (1, 1)


def test_two_pages_with_an_equal_first_line_stay(tmp_path: Path) -> None:
    path = write_headers(tmp_path / "a.pdf", ["Question sheet"] * 2)
    assert read_text(path).count("Question sheet") == 2


def test_table_head_in_the_margin_stays_on_all_pages(tmp_path: Path) -> None:
    columns = (72, 250, 420)
    pages = [
        [
            *[(x, 50, name) for x, name in zip(columns, ("Part", "Colour", "Price"), strict=True)],
            *[
                (x, 66 + 16 * row, f"{name}{page}{row}")
                for row in range(8)
                for x, name in zip(columns, "pcq", strict=True)
            ],
        ]
        for page in range(5)
    ]
    text = read_text(write_pages(tmp_path / "a.pdf", pages))
    assert text.count("Colour") == 5


def test_long_equal_line_stays(tmp_path: Path) -> None:
    line = "This sentence is printed at the top of each page, " * 3
    pages = [[(20, 40, line, 6), *prose(page)] for page in range(4)]
    assert read_text(write_pages(tmp_path / "a.pdf", pages)).count("This sentence is printed") == 12


@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (1.2, -1.2), (-0.4, 0.2)])
def test_overprinted_line_is_read_once(shift: tuple[float, float], tmp_path: Path) -> None:
    copy = (72 + shift[0], 60 + shift[1], "IMPORTANT NOTICE", 14)
    page = [(72, 60, "IMPORTANT NOTICE", 14), *prose(1), copy]
    assert read_text(write_pages(tmp_path / "a.pdf", [page])).count("IMPORTANT") == 1


def test_overprinted_start_of_a_line_is_read_once(tmp_path: Path) -> None:
    page = [(72, 60, "IMPORTANT", 14), (72.3, 60, "IMPORTANT notice for all", 14), *prose(1)]
    assert read_text(write_pages(tmp_path / "a.pdf", [page])).splitlines()[0] == "IMPORTANT notice for all"


@pytest.mark.parametrize("place", [(72, 76), (200, 60), (72, 400)])
def test_repeated_text_at_another_place_stays(place: tuple[float, float], tmp_path: Path) -> None:
    page = [(72, 60, "very very good"), (*place, "very very good"), *prose(1)]
    assert read_text(write_pages(tmp_path / "a.pdf", [page])).count("very") == 4

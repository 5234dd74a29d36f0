"""Boxes of a PDF's lines: each box is where its line is visible, and its range is that line's text."""

import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.parsers.formats.pdf.layout import group_page_lines
from app.ingestion.parsers.formats.pdf.line_boxes import LineBoxBuilder
from app.ingestion.parsers.formats.pdf.pages import PdfPage
from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.parsers.sandbox.protocol import MAX_BLOCK_LINES
from app.ingestion.tree import build_tree
from app.ingestion.types import DocumentTree, LineLayout
from tests.ingestion.parsers.images import FITZ, SENTENCE, png, reading, text_image

Box = tuple[int, ...]
# Each line has another colour, so that it can be found in the rendered page.
COLOURED = {"Red herrings swim": (1, 0, 0), "where green grass grows": (0, 1, 0), "beneath the blue sky.": (0, 0, 1)}


def places(tree: DocumentTree) -> Iterator[tuple[int, str, Box]]:
    """Yield page, text and box of every line."""
    for page, printed in tree.line_layouts.items():
        numbers = list(printed.lines)
        for place in range(0, len(numbers), 6):
            start, end, *box = numbers[place : place + 6]
            yield page, tree.text[start:end], tuple(box)


def tree_of(path: Path, options: ParseOptions) -> DocumentTree:
    return build_tree(pdf_parser.parse(path, options))


def seen(page: Any, colour: tuple[float, float, float]) -> Box:
    """Return the box of a colour in the rendered page, in tenths of a point."""
    picture = Image.open(io.BytesIO(page.get_pixmap(dpi=144).tobytes("png"))).convert("RGB")
    wanted = Image.new("RGB", picture.size, tuple(round(255 * part) for part in colour))
    far = ImageChops.difference(picture, wanted).convert("L", (1, 1, 1, 0))
    found = far.point(lambda value: 255 if value < 120 else 0).getbbox()
    assert found is not None
    return tuple(5 * pixels for pixels in found)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("cut", [None, (15, 30, 290, 170)], ids=["whole", "cropped"])
@pytest.mark.parametrize("unit", [1, 2])
def test_pdf_boxes_are_at_visible_lines(
    rotation: int, cut: Box | None, unit: int, tmp_path: Path, options: ParseOptions
) -> None:
    with FITZ.open() as document:
        page = document.new_page(width=300, height=200)
        for number, (text, colour) in enumerate(COLOURED.items()):
            page.insert_text((20 + 5 * number, 50 + 14 * number), text, fontsize=11, color=colour)
        if cut:
            page.set_cropbox(FITZ.Rect(*cut))
        if unit != 1:
            document.xref_set_key(page.xref, "UserUnit", str(unit))
        page.set_rotation(rotation)
        document.save(tmp_path / "page.pdf")
    tree = tree_of(tmp_path / "page.pdf", options)
    assert tree.text == " ".join(COLOURED)
    with FITZ.open(tmp_path / "page.pdf") as document:
        page = document[0]
        printed = tree.line_layouts[1]
        assert (printed.width, printed.height) == (round(10 * page.rect.width), round(10 * page.rect.height))
        found = list(places(tree))
        assert [text for _, text, _ in found] == list(COLOURED)
        for _, text, box in found:
            ink = seen(page, COLOURED[text])
            slack = [inner - outer for inner, outer in zip(ink[:2], box[:2], strict=True)]
            slack += [outer - inner for inner, outer in zip(ink[2:], box[2:], strict=True)]
            assert all(-5 * unit <= one <= 80 * unit for one in slack), (text, ink, box)


def test_pdf_ocr_page_has_boxes(tmp_path: Path, options: ParseOptions) -> None:
    with FITZ.open() as document:
        page = document.new_page(width=100, height=330)
        page.insert_image(page.rect, stream=png(text_image()), rotate=90)
        page.set_rotation(90)
        document.save(tmp_path / "scan.pdf")
    tree = tree_of(tmp_path / "scan.pdf", reading(options))
    assert (tree.line_layouts[1].width, tree.line_layouts[1].height) == (3300, 1000)
    ((_, text, (x0, y0, x1, y1)),) = places(tree)
    assert text == SENTENCE
    with FITZ.open(tmp_path / "scan.pdf") as document:
        left, top, right, bottom = seen(document[0], (0, 0, 0))
    assert max(abs(x0 - left), abs(x1 - right)) < 50
    assert top - 60 < y0 < y1 < bottom + 60  # OCR is less exact in heights than in widths


def test_pdf_text_outside_page_has_no_box(tmp_path: Path, options: ParseOptions) -> None:
    page = PdfPage(1, shown_size=(100.0, 50.0))
    lines = [TextLine(*box, size=10, text="x") for box in ((-5, 1, 20, 11), (90, 45, 120, 60), (101, 1, 130, 11))]
    printed = LineBoxBuilder([page]).build_layout(1, lines, [(0, 1), (2, 3), (4, 5)])
    assert printed is not None
    assert list(printed.lines) == [0, 1, 0, 10, 200, 110, 2, 3, 900, 450, 1000, 500]
    assert LineBoxBuilder([page]).build_layout(1, lines[2:], [(0, 1)]) is None
    for shown in ((0.0, 50.0), (float("inf"), 50.0), (100.0, float("nan"))):
        assert LineBoxBuilder([PdfPage(1, shown_size=shown, rotation=90)]).build_layout(1, lines, [(0, 1)] * 3) is None


def test_pdf_block_with_too_many_lines_has_boxes_for_first_lines() -> None:
    lines = [TextLine(1, 1, 2, 2, 1, "x")] * (MAX_BLOCK_LINES + 1)
    printed = LineBoxBuilder([PdfPage(1, shown_size=(9.0, 9.0))]).build_layout(
        1, lines, [(at, at + 1) for at in range(len(lines))]
    )
    assert printed is not None
    assert len(printed.lines) == 6 * MAX_BLOCK_LINES


@pytest.mark.parametrize("name", ["two_columns.pdf", "outline.pdf", "handbook.pdf"])
def test_pdf_boxes_contain_words_of_their_line(name: str, samples: Path, demo: Path, options: ParseOptions) -> None:
    path = (demo if name == "handbook.pdf" else samples) / name
    tree = tree_of(path, options)
    found = list(places(tree))
    covered = sum(len(text) for _, text, _ in found)
    assert covered > 0.96 * len(tree.text)
    with FITZ.open(path) as document:
        words = {page.number + 1: page.get_text("words") for page in document}
    for page, text, (x0, y0, x1, y1) in found:
        inside = [
            word for left, top, right, bottom, word, *_ in words[page]
            if x0 <= 5 * (left + right) <= x1 and y0 <= 5 * (top + bottom) <= y1
        ]  # fmt: skip
        missing = [word for word in text.replace("|", " ").split() if word not in " ".join(inside)]
        assert not missing, (text, inside)
        assert len("".join(inside)) <= len(text) + 1, (text, inside)


def test_pdf_line_ranges_follow_each_other(demo: Path, options: ParseOptions) -> None:
    tree = tree_of(demo / "handbook.pdf", options)
    assert list(tree.line_layouts) == list(range(1, 9))
    ranges = [place for printed in tree.line_layouts.values() for place in line_ranges(printed)]
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    assert ranges[-1][1] <= len(tree.text)


def line_ranges(printed: LineLayout) -> list[tuple[int, int]]:
    return list(zip(printed.lines[::6], printed.lines[1::6], strict=True))


def test_pdf_table_rows_have_line_ranges() -> None:
    words = [["name", "number"], ["amber | resin", "1"], ["\x01", "\x02"], ["", "2"]]
    cells = [
        [TextLine(100 * x, 20 * y, 100 * x + 40, 20 * y + 10, 10, word) for x, word in enumerate(row)]
        for y, row in enumerate(words)
    ]
    (group,) = group_page_lines([cell for row in cells for cell in row])
    assert group.text == "| name | number |\n| --- | --- |\n| amber \\| resin | 1 |\n|  | 2 |"
    assert [group.text[start:end] for start, end in group.ranges] == [
        "| name | number |",
        "| amber \\| resin | 1 |",
        "|  | 2 |",
    ]
    assert [(line.x0, line.y0, line.x1) for line in group.lines] == [(0, 0, 140), (0, 20, 140), (0, 60, 140)]

"""Build the sample files: ``samples/`` for the demo, and ``tests/samples/`` for the tests of the parsers.

Run ``python scripts/build_samples.py``. Equal input gives equal bytes, except in the two encrypted files with random
salt.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymupdf
from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Cm

from harness.reproducible_files import with_fixed_times

fitz: Any = pymupdf  # it ships without types

ROOT = Path(__file__).resolve().parent.parent
DEMO_FOLDER = ROOT / "samples"
TESTS_FOLDER = ROOT / "tests" / "samples"
DATE = "D:20260105090000Z"
WIDTH, HEIGHT, MARGIN = 595.0, 842.0, 64.0
PLAIN, BOLD = "helv", "hebo"

COLUMNS = {
    "left": "The left column tells of harbours. Ships come in with the tide and wait for the pilot, who climbs aboard "
    "from a small boat. Nothing moves before the papers are stamped, and the crew sleeps until then. ",
    "right": "The right column tells of mountains. The path begins behind the last farm and follows the water up to "
    "the hut, where the key hangs beside the door. Whoever comes late finds soup on the stove. ",
}


class PdfSheet:
    """PDF that is written from top to bottom."""

    def __init__(self) -> None:
        self.document = fitz.open()
        self.page: Any = None
        self.y = HEIGHT

    def start_page(self) -> None:
        """Begin a new page."""
        self.page = self.document.new_page(width=WIDTH, height=HEIGHT)
        self.y = MARGIN + 20

    def write_paragraph(
        self, text: str, *, size: float = 10.5, font: str = PLAIN, x: float = MARGIN, width: float = 467
    ) -> None:
        """Wrap and write a paragraph, with a page break if necessary."""
        for line in wrap_lines(text, size=size, font=font, width=width):
            if self.y > HEIGHT - MARGIN - 20:
                self.start_page()
            self.y += size * 1.35
            self.page.insert_text((x, self.y), line, fontsize=size, fontname=font)
        self.y += size * 0.8

    def write_table(self, rows: list[list[str]]) -> None:
        """Write rows of equal columns with rules between them."""
        step = 467 / len(rows[0])
        for index, row in enumerate(rows):
            self.page.draw_line((MARGIN, self.y + 4), (MARGIN + 467, self.y + 4), width=0.5)
            self.y += 18
            for column, cell in enumerate(row):
                place = (MARGIN + 4 + column * step, self.y)
                self.page.insert_text(place, cell, fontsize=10, fontname=PLAIN if index else BOLD)
        self.page.draw_line((MARGIN, self.y + 4), (MARGIN + 467, self.y + 4), width=0.5)
        self.y += 20

    def save(self, path: Path, *, title: str, **options: Any) -> None:
        """Write the file with fixed dates and without an id."""
        self.document.set_metadata(
            {"title": title, "creationDate": DATE, "modDate": DATE, "producer": "", "creator": ""}
        )
        self.document.save(path, garbage=3, deflate=True, no_new_id=True, **options)


def wrap_lines(text: str, *, size: float, font: str, width: float) -> Iterator[str]:
    """Split a text into lines of at most ``width`` points."""
    line = ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if fitz.get_text_length(longer, fontname=font, fontsize=size) > width:
            yield line
            longer = word
        line = longer
    yield line


def build_handbook() -> PdfSheet:
    """Build the rental handbook from ``handbook.txt``, with headers and footers on each page."""
    sheet = PdfSheet()
    source = (ROOT / "scripts" / "handbook.txt").read_text(encoding="utf-8")
    for part in source.split("===\n"):
        sheet.start_page()
        for line_or_table in _parse_blocks(part):
            if isinstance(line_or_table, list):
                sheet.write_table(line_or_table)
            elif line_or_table.startswith("## "):
                sheet.write_paragraph(line_or_table[3:], size=13, font=BOLD)
            elif line_or_table.startswith("# "):
                sheet.write_paragraph(line_or_table[2:], size=20, font=BOLD)
            else:
                sheet.write_paragraph(line_or_table)
    total = sheet.document.page_count
    for number, page in enumerate(sheet.document, start=1):
        page.insert_text((MARGIN, 40), "Northwind Rentals - Rental handbook 2026", fontsize=8, fontname=PLAIN)
        page.insert_text((WIDTH - MARGIN - 60, HEIGHT - 36), f"Page {number} of {total}", fontsize=8, fontname=PLAIN)
    return sheet


def _parse_blocks(part: str) -> Iterator[str | list[list[str]]]:
    rows: list[list[str]] = []
    for line in [*part.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if rows:
            yield rows
            rows = []
        if line:
            yield line


def build_two_columns() -> PdfSheet:
    """Build a page with a title over two columns. Lines of both columns have equal heights and alternate."""
    sheet = PdfSheet()
    sheet.start_page()
    sheet.write_paragraph("Harbours and mountains in one document", size=18, font=BOLD)
    columns = [list(wrap_lines(text * 6, size=10, font=PLAIN, width=220)) for text in COLUMNS.values()]
    for left, right in zip(*columns, strict=False):
        sheet.y += 14
        sheet.page.insert_text((MARGIN, sheet.y), left, fontsize=10, fontname=PLAIN)
        sheet.page.insert_text((MARGIN + 240, sheet.y), right, fontsize=10, fontname=PLAIN)
    return sheet


def build_outline() -> PdfSheet:
    """Build a PDF with headings as large as the text, so that only the outline identifies them."""
    sheet = PdfSheet()
    for number, title in enumerate(("First chapter", "A part of it", "Second chapter"), start=1):
        sheet.start_page()
        sheet.write_paragraph(f"{number} {title}")
        sheet.write_paragraph(f"{title} begins. {COLUMNS['left'] * number}")
    sheet.document.set_toc([[1, "First chapter", 1], [2, "A part of it", 2], [1, "Second chapter", 3]])
    return sheet


def build_images(*, with_text: bool) -> PdfSheet:
    """Build two pages of images, with or without a page of text before them."""
    sheet = PdfSheet()
    if with_text:
        sheet.start_page()
        sheet.write_paragraph(COLUMNS["right"])
    for _ in range(2):
        sheet.start_page()
        sheet.page.insert_image((100, 100, 400, 300), stream=build_photo())
    return sheet


def build_photo() -> bytes:
    """Build a small PNG."""
    image = Image.new("RGB", (48, 32))
    image.putdata([(x * 5, y * 8, 96) for y in range(32) for x in range(48)])
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def build_product_tour() -> bytes:
    """Build six slides with a list, a table, a group, a chart and notes."""
    deck: Any = Presentation()
    deck.core_properties.title = "Northwind Rentals product tour"
    title, bullets, bare = deck.slide_layouts[0], deck.slide_layouts[1], deck.slide_layouts[5]
    slide = deck.slides.add_slide(title)
    slide.shapes.title.text = "Northwind Rentals product tour"
    slide.placeholders[1].text = "For travel agents, spring 2026"
    slide.notes_slide.notes_text_frame.text = "Welcome everybody and ask who has used the agent portal before."
    slide = deck.slides.add_slide(bullets)
    slide.shapes.title.text = "Loyalty programme Compass"
    slide.placeholders[1].text = (
        "One point for every euro spent on rentals\nBlue status from 500 points: free additional driver\n"
        "Silver status from 2,000 points: one vehicle group higher\nPoints expire after 36 months without a rental"
    )
    slide.notes_slide.notes_text_frame.text = "Points are never given for fuel, fees or fines."
    slide = deck.slides.add_slide(bare)
    slide.shapes.title.text = "Electric cars and their range"
    rows = (
        ("Model group", "Range in summer", "Range in winter", "Fast charging 10-80 %"),
        ("E1 City", "290 km", "210 km", "32 minutes"),
        ("E2 Family", "430 km", "320 km", "28 minutes"),
        ("E3 Van", "260 km", "180 km", "41 minutes"),
    )
    table = slide.shapes.add_table(4, 4, Cm(1), Cm(5), Cm(23), Cm(6)).table
    for row, cells in enumerate(rows):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    slide.notes_slide.notes_text_frame.text = "Winter range was measured at minus five degrees with heating on."
    slide = deck.slides.add_slide(bare)
    slide.shapes.title.text = "From app to key in four steps"
    group = slide.shapes.add_group_shape()
    for number, text in enumerate(("Book in the app", "Scan the licence", "Unlock the key box", "Drive away")):
        box = group.shapes.add_textbox(Cm(1 + 6 * number), Cm(8), Cm(5), Cm(2))
        box.text_frame.text = f"Step {number + 1}: {text}"
    slide = deck.slides.add_slide(bare)
    slide.shapes.title.text = "Stations by country"
    chart_data: Any = CategoryChartData
    data = chart_data()
    data.categories = ["Denmark", "Germany", "Netherlands", "Poland", "Sweden"]
    data.add_series("Stations 2026", (14, 25, 9, 7, 9))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Cm(2), Cm(5), Cm(20), Cm(12), data)
    slide = deck.slides.add_slide(bullets)
    slide.shapes.title.text = "Business accounts"
    slide.placeholders[
        1
    ].text = (
        "Monthly invoice with cost centres\nFree cancellation up to two hours before pickup\nA fixed contact person"
    )
    target = io.BytesIO()
    deck.save(target)
    return with_fixed_times(target.getvalue())


def main() -> None:
    """Write every file."""
    DEMO_FOLDER.mkdir(exist_ok=True)
    TESTS_FOLDER.mkdir(exist_ok=True)
    build_handbook().save(DEMO_FOLDER / "handbook.pdf", title="Northwind Rentals handbook")
    (DEMO_FOLDER / "product-tour.pptx").write_bytes(build_product_tour())
    build_two_columns().save(TESTS_FOLDER / "two_columns.pdf", title="")
    build_outline().save(TESTS_FOLDER / "outline.pdf", title="")
    build_images(with_text=False).save(TESTS_FOLDER / "pictures_only.pdf", title="")
    build_images(with_text=True).save(TESTS_FOLDER / "pictures_and_text.pdf", title="")
    build_two_columns().save(
        TESTS_FOLDER / "owner_password.pdf", title="", encryption=fitz.PDF_ENCRYPT_AES_256, owner_pw="owner", user_pw=""
    )
    build_two_columns().save(
        TESTS_FOLDER / "encrypted.pdf", title="", encryption=fitz.PDF_ENCRYPT_AES_256, user_pw="secret"
    )
    (TESTS_FOLDER / "truncated.pdf").write_bytes((TESTS_FOLDER / "two_columns.pdf").read_bytes()[:300])
    (TESTS_FOLDER / "truncated.pptx").write_bytes((DEMO_FOLDER / "product-tour.pptx").read_bytes()[:6000])
    (TESTS_FOLDER / "empty.bin").write_bytes(b"")
    (TESTS_FOLDER / "photo.png").write_bytes(build_photo())
    (TESTS_FOLDER / "renamed.pdf").write_bytes(build_photo())
    (TESTS_FOLDER / "plain_utf16.txt").write_bytes(
        "First paragraph, déjà vu.\n\nSecond paragraph.\n".encode("utf-16-le")
    )
    (TESTS_FOLDER / "latin1.txt").write_bytes("Größe und Maß: über 5 £ für Öl.\n\nFin de l'été.\n".encode("latin-1"))
    (TESTS_FOLDER / "nul.txt").write_bytes(b"A line with a\0NUL in it, and enough other text around it.\n\nThe end.\n")


if __name__ == "__main__":
    main()

"""PDF pages of images or unreadable text: OCR if it is installed, and a warning for everything unread."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.ingestion.parsers import LanguageData, ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser
from app.ingestion.types import BlockKind, NoTextFound
from app.warnings import ServiceWarning
from tests.ingestion.parsers.images import FITZ, NOWHERE, SENTENCE, png, reading, text_image

TEXT = "This page has a line of text."
NOT_INSTALLED = "no OCR language data is installed"


class PdfBuilder:
    """PDF under construction."""

    def __init__(self) -> None:
        self.pdf: Any = FITZ.open()

    def page(self, text: str = TEXT, *pictures: tuple[bytes, tuple[float, float, float, float]]) -> Any:
        """Add a page of 400 by 400 points with images at their places, and text below the middle."""
        page = self.pdf.new_page(width=400, height=400)
        for data, box in pictures:
            page.insert_image(FITZ.Rect(*box), stream=data, keep_proportion=False)
        page.insert_textbox(FITZ.Rect(20, 250, 380, 300), text, fontsize=11)
        return page

    def garbled_page(self, text: str = SENTENCE) -> None:
        """Add a page whose font maps all letters to U+E000, a private character."""
        page = self.page(text)
        (font, *_), *_ = page.get_fonts()
        mapping = self.pdf.get_new_xref()
        self.pdf.update_object(mapping, "<<>>")
        ranges = "/CMapName /X def 1 begincodespacerange <00> <ff> endcodespacerange"
        lines = "\n".join(f"<{code:02x}> <e000>" for code in range(33, 127))
        cmap = f"begincmap {ranges} 94 beginbfchar\n{lines}\nendbfchar endcmap"
        self.pdf.update_stream(mapping, cmap.encode(), new=True)
        self.pdf.xref_set_key(font, "ToUnicode", f"{mapping} 0 R")

    def save(self, directory: Path) -> Path:
        path = directory / "book.pdf"
        self.pdf.save(path)
        self.pdf.close()
        return path


@pytest.fixture
def book() -> PdfBuilder:
    return PdfBuilder()


SCAN = (png(text_image()), (0.0, 0.0, 330.0, 100.0))


def image_file(number: int, *, side: int = 80) -> bytes:
    return png(Image.new("RGB", (side, side), (number, 0, 0)))


def test_pdf_pages_that_look_like_scans_are_named(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    for is_scan in [False, True, False, True, True, True, False]:
        book.page("", SCAN) if is_scan else book.page()
    document = pdf_parser.parse(book.save(tmp_path), options)
    assert [block.page for block in document.blocks] == [1, 3, 7]
    assert document.warnings == [
        ServiceWarning("ocr_pages_not_read", f"Pages 2, 4-6 look like scans and were not read: {NOT_INSTALLED}.")
    ]


def test_pdf_one_page_that_looks_like_scan_is_named(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.page()
    book.page("", SCAN)
    document = pdf_parser.parse(book.save(tmp_path), replace(options, ocr=NOWHERE, wall_clock_timeout_seconds=0.0))
    assert document.warnings == [
        ServiceWarning(
            "ocr_pages_not_read", "Page 2 looks like a scan and was not read: the time for one file was used up."
        )
    ]


def test_pdf_of_scans_only_names_packages_to_install(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.page("", SCAN)
    ocr = LanguageData(missing=("eng", "deu"))
    with pytest.raises(
        NoTextFound, match=rf"^1 page .* a scan .*: {NOT_INSTALLED}; .*tesseract-ocr-eng tesseract-ocr-deu"
    ):
        pdf_parser.parse(book.save(tmp_path), replace(options, ocr=ocr))


@pytest.mark.capability("format-pdf-scans")
def test_pdf_scans_among_other_pages_are_read(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.page()
    book.page("", SCAN)
    book.page("", (image_file(1), (0, 0, 400, 400)))
    document = pdf_parser.parse(book.save(tmp_path), reading(options))
    assert [(block.kind, block.page, block.text) for block in document.blocks] == [
        (BlockKind.PARAGRAPH, 1, TEXT),
        (BlockKind.PARAGRAPH, 2, SENTENCE),
    ]
    assert document.warnings == [
        ServiceWarning("pages_without_text", "Page 3 has only images, in which OCR found no text.")
    ]


def test_pdf_rotated_scan_is_read(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    turned = png(text_image().transpose(Image.Transpose.ROTATE_90))
    book.page("", (turned, (0, 0, 100, 330))).set_rotation(90)
    assert [block.text for block in pdf_parser.parse(book.save(tmp_path), reading(options)).blocks] == [SENTENCE]


def test_pdf_large_letters_in_scan_are_heading(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    title = png(text_image("Harbour rules", size=24))
    book.page("", (title, (0, 0, 330, 100)), (SCAN[0], (0, 100, 330, 200)), (SCAN[0], (0, 200, 330, 300)))
    blocks = pdf_parser.parse(book.save(tmp_path), reading(options)).blocks
    assert [(block.kind, block.level) for block in blocks] == [(BlockKind.HEADING, 1)] + 2 * [(BlockKind.PARAGRAPH, 0)]
    assert blocks[0].text == "Harbour rules"


def test_pdf_unreadable_font_is_read_by_ocr(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.garbled_page()
    assert [block.text for block in pdf_parser.parse(book.save(tmp_path), reading(options)).blocks] == [SENTENCE]


def test_pdf_unreadable_font_is_named(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.garbled_page()
    path = book.save(tmp_path)
    with pytest.raises(
        NoTextFound, match=rf"^The fonts of this PDF .* without OCR: {NOT_INSTALLED}; .*tesseract-ocr-eng"
    ):
        pdf_parser.parse(path, options)


def test_pdf_garbled_pages_are_counted(book: PdfBuilder, options: ParseOptions, tmp_path: Path) -> None:
    book.garbled_page()
    book.pdf.new_page().insert_text((50, 50), TEXT, fontname="tiro")
    document = pdf_parser.parse(book.save(tmp_path), options)
    assert [(block.page, block.text) for block in document.blocks] == [(2, TEXT)]
    assert document.warnings == [
        ServiceWarning("fonts_not_readable", "1 of 2 pages have fonts that do not name their characters.")
    ]


PLACE, LOGO_PLACE = (20.0, 20.0, 200.0, 200.0), (300.0, 20.0, 380.0, 100.0)


@pytest.mark.parametrize(
    ("pages", "warnings"),
    [
        pytest.param(
            [[(image_file(1), PLACE)]], [ServiceWarning("images_not_read", "1 image was not read.", 1)], id="one"
        ),
        pytest.param(
            [[(image_file(n), PLACE), (image_file(9), LOGO_PLACE)] for n in range(4)],
            [ServiceWarning("images_not_read", "4 images were not read.", 4)],
            id="four and a logo on every page",
        ),
        pytest.param(
            [[(image_file(1), PLACE)], [(image_file(1), PLACE)]],
            [ServiceWarning("images_not_read", "1 image was not read.", 1)],
            id="one twice",
        ),
        pytest.param([[(image_file(1, side=63), PLACE)]], [], id="an icon"),
        pytest.param([[(image_file(1), (0.0, 0.0, 400.0, 400.0))]], [], id="the paper"),
        pytest.param([[]], [], id="none"),
    ],
)
def test_pdf_images_with_text_are_counted(
    pages: list[list[tuple[bytes, tuple[float, float, float, float]]]],
    warnings: list[ServiceWarning],
    book: PdfBuilder,
    options: ParseOptions,
    tmp_path: Path,
) -> None:
    for number, pictures in enumerate(pages, start=1):
        book.page(f"{TEXT} It is number {number}.", *pictures)
    document = pdf_parser.parse(book.save(tmp_path), options)
    assert [block.page for block in document.blocks] == list(range(1, len(pages) + 1))
    assert document.warnings == warnings

"""Documents with images, created on demand; each image has one colour and a different size."""

import io
from pathlib import Path
from typing import Any

import docx as word
import pymupdf
from PIL import Image
from pptx import Presentation
from pptx.util import Inches

from harness.reproducible_files import with_fixed_times

FITZ: Any = pymupdf  # the package has no types
WORD: Any = word


def square(colour: str, size: tuple[int, int] = (120, 100), *, kind: str = "PNG") -> bytes:
    """Return the file of an image of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()


def pdf(path: Path, *, text: bool = True, colours: tuple[str, str] = ("red", "blue")) -> Path:
    """Write two pages with a heading and an image each; the second page repeats the first image."""
    first, second = square(colours[0], (120, 100)), square(colours[1], (200, 150))
    with FITZ.open() as document:
        for number, (heading, picture) in enumerate((("Harbours", first), ("Rivers", second))):
            page = document.new_page()
            if text:
                page.insert_text((50, 60), heading, fontsize=24)
                page.insert_text((50, 90), f"What this page says of {heading.lower()} is short.", fontsize=11)
                page.insert_text((50, 500), f"The end of the part on {heading.lower()} is even shorter.", fontsize=11)
            page.insert_image(FITZ.Rect(50, 120, 170, 220), stream=picture)
            if number:
                page.insert_image(FITZ.Rect(250, 120, 370, 220), stream=first)
        document.save(path, no_new_id=True)
    return path


def pptx(path: Path) -> Path:
    """Write two slides with a title and an image each; the second one also has a tiny image that is not read."""
    presentation: Any = Presentation()
    for title, picture in (("Ships", square("green")), ("Locks", square("blue", kind="JPEG"))):
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = title
        slide.shapes.add_picture(io.BytesIO(picture), Inches(1), Inches(2))
    slide.shapes.add_picture(io.BytesIO(square("red", (10, 10))), Inches(4), Inches(2))
    presentation.save(str(path))
    path.write_bytes(with_fixed_times(path.read_bytes()))
    return path


def docx(path: Path, *, words: str = "A few words on {}.") -> Path:
    """Write three headings with an image below each; the last image repeats the first."""
    document = WORD.Document()
    for title, picture in (("Gulls", square("red")), ("Terns", square("green")), ("Again", square("red"))):
        document.add_heading(title, level=1)
        document.add_paragraph(words.format(title.lower()))
        document.add_picture(io.BytesIO(picture))
    document.save(str(path))
    path.write_bytes(with_fixed_times(path.read_bytes()))
    return path

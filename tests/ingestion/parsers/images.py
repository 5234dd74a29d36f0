"""Images of text, drawn on demand, and the language data to read them."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from PIL import Image

from app.ingestion.parsers import LanguageData, ParseOptions
from app.ingestion.parsers.toolkit.tessdata import find_language_data

FITZ: Any = pymupdf  # the package has no types
SENTENCE = "The harbour master keeps the keys of the lighthouse."
NOWHERE = LanguageData("/nonexistent", ("eng",))
"""Language data that is declared and missing, for steps before the first read."""


def reading(options: ParseOptions) -> ParseOptions:
    """Return the options with OCR; skip the test if no language data is installed."""
    found = find_language_data(["eng"], None)
    if not found.languages:
        pytest.skip("no Tesseract language data")
    return replace(options, ocr=found)


def text_image(text: str = SENTENCE, *, dpi: int = 150, size: float = 12, width: float = 330) -> Image.Image:
    """Return an image of black letters on white paper."""
    with FITZ.open() as document:
        page = document.new_page(width=width, height=100)
        page.insert_textbox(FITZ.Rect(10, 10, width - 10, 90), text, fontsize=size)
        return Image.open(io.BytesIO(page.get_pixmap(dpi=dpi).tobytes("png"))).convert("RGB")


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def saved(image: Image.Image, path: Path, **parameters: Any) -> Path:
    image.save(path, **parameters)
    return path

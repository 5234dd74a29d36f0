"""Pictures of text, drawn when they are needed, and the language data to read them with."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from PIL import Image

from app.ingestion.parsers import LanguageData, ParseOptions
from app.ingestion.parsers.toolkit.tessdata import find_language_data

FITZ: Any = pymupdf  # it ships without types
SENTENCE = "The harbour master keeps the keys of the lighthouse."
NOWHERE = LanguageData("/nonexistent", ("eng",))
"""Language data that is said to be there and is not: for what must happen before anything is read with it."""


def reading(options: ParseOptions) -> ParseOptions:
    """The options with OCR; skips where that is not installed."""
    found = find_language_data(["eng"], None)
    if not found.languages:
        pytest.skip("no Tesseract language data")
    return replace(options, ocr=found)


def text_picture(text: str = SENTENCE, *, dpi: int = 150, size: float = 12, width: float = 330) -> Image.Image:
    """Black letters on white paper."""
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

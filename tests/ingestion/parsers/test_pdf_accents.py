"""Accents that a PDF file prints as separate glyphs: their positions show to which letter they belong."""

import re
from pathlib import Path
from typing import Any

import pymupdf
import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pdf import pdf_parser

MUPDF: Any = pymupdf
FONT = MUPDF.Font("helv")
SIZE, BASE = 12, 100
ACCENTS = "¨´`ˆ˜¸~^"


def _read(tmp_path: Path, options: ParseOptions, text: str) -> str:
    """Write a line of a PDF file and return its stored text.

    ``<a|e>`` prints the accent ``a`` over the letter ``e``, accent first; ``<e|a>`` prints the letter first.
    """
    path = tmp_path / "accents.pdf"
    document = MUPDF.open()
    page = document.new_page()
    writer = MUPDF.TextWriter(page.rect)
    x = 72.0
    for first, second, words in re.findall(r"<(.)\|(.)>|([^<]+)", text):
        if words:
            writer.append((x, BASE), words, font=FONT, fontsize=SIZE)
            x += FONT.text_length(words, SIZE)
            continue
        letter = second if first in ACCENTS else first
        for each in (first, second):
            shift = (FONT.text_length(letter, SIZE) - FONT.text_length(each, SIZE)) / 2
            writer.append((x + shift, BASE), each, font=FONT, fontsize=SIZE)
        x += FONT.text_length(letter, SIZE)
    writer.write_text(page)
    document.save(path)
    return "\n".join(block.text for block in pdf_parser.parse(path, options).blocks)


@pytest.mark.parametrize(
    ("printed", "stored"),
    [
        ("The method of K<¨|u>ttler and Herv<´|e> J<´|e>gou", "The method of Küttler and Hervé Jégou"),
        ("The village of <¨|O>rebro lies near <´|E>vora", "The village of Örebro lies near Évora"),
        ("Dans un <´|e>tat de r<^|e>ve, d<`|e>s l'<´|e>t<´|e>", "Dans un état de rêve, dès l'été"),
        ("Pablo Ibá<~|n>ez and Mar<´|i>a Nu<~|n>ez", "Pablo Ibáñez and María Nuñez"),
        ("le fran<c|¸>ais et la fa<c|¸>ade", "le français et la façade"),
        ("M<u|¨>ller, caf<e|´>, ol<e|´>!", "Müller, café, olé!"),
        ("M<¨|U>NCHEN, Z<¨|U>RICH, J<´|A>NOS", "MÜNCHEN, ZÜRICH, JÁNOS"),
    ],
)
def test_pdf_accent_over_letter_is_composed(printed: str, stored: str, tmp_path: Path, options: ParseOptions) -> None:
    assert _read(tmp_path, options, printed) == stored


@pytest.mark.parametrize(
    "printed",
    [
        "He said it´s the house of Mr O´Brien, d´accord",
        "Open ~/notes or press ^a and type `echo e`",
        "It takes 5 ´ and 30 ´´ at an angle of 12 ´",
        "The signs ¨ and ´ and ~ stand alone",
        "A path /~anna/index and x^e - y~n",
    ],
)
def test_pdf_accent_next_to_letter_stays(printed: str, tmp_path: Path, options: ParseOptions) -> None:
    assert _read(tmp_path, options, printed) == printed

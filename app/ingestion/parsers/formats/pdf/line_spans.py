"""Characters of single lines of a PDF page, with their sizes, base lines and fonts."""

import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import pymupdf
from pymupdf import mupdf

from app.ingestion.parsers.toolkit.symbol_fonts import is_symbol_font

MAX_SCRIPT_SHARE = 0.85
"""Maximum font size of a raised or lowered character, as a share of the font size of the line."""

_WEIGHT = re.compile(r"[-, ](?:regular|normal|medium|roman|bold|italic)\w{0,10}$", re.IGNORECASE)
_make_spans: Any = pymupdf.extra.JM_make_spanlist  # a function without type annotations
_BOLD = 16
"""Flag of a span in a bold font."""


class PdfCharacter(NamedTuple):
    """Character of a line, or a span of characters in one font and size.

    Attributes:
        text: The character, or the text of the span.
        x0: Left edge in points.
        x1: Right edge.
        base: Height of the base line, from the top of the page.
        size: Font size in points.
        font: Name of the font.
        is_bold: Whether the font is bold.
        is_synthetic: Whether MuPDF added the character, a space, because of a gap.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    font: str
    is_bold: bool
    is_synthetic: bool


class LineSpans(NamedTuple):
    """Bold font of a line, and its characters if they are needed.

    Attributes:
        is_bold: Whether all visible characters are bold.
        characters: Characters or spans in the order of the file; empty if they all have about the same size.
    """

    is_bold: bool
    characters: list[PdfCharacter]


@lru_cache(maxsize=256)
def find_symbol_font(font: str) -> str:
    """Return the name of a font with symbols in the place of letters; empty for any other font.

    Args:
        font: Name of the font. It may begin with the tag of a subset and end with a weight.
    """
    name = _WEIGHT.sub("", font.partition("+")[2] or font)
    return name if is_symbol_font(name) else ""


def read_line_spans(
    page: Any, places: Iterable[tuple[int, int]], detailed: Set[tuple[int, int]]
) -> Mapping[tuple[int, int], LineSpans]:
    """Read the spans of some lines of a page.

    Args:
        page: Structured text page of MuPDF.
        places: Number of the block and number of the line in the block for each line, in ascending order.
        detailed: Places of the lines whose characters are needed, not only the spans.

    Returns:
        The spans of each line, by its place.
    """
    requested = {block: {line for _, line in group} for block, group in groupby(places, key=lambda place: place[0])}
    last = max(requested, default=-1)
    buffer, clip = mupdf.FzBuffer(64), mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE)
    result = {}
    block, block_number = page.m_internal.first_block, 0
    while block and block_number <= last:  # iterators of MuPDF take far longer
        numbers = requested.get(block_number, ())
        for number, line in enumerate(mupdf.FzStextBlock(block)) if numbers else ():
            if number in numbers:
                place = block_number, number
                result[place] = _read_spans(line, place in detailed, buffer, clip)
        block, block_number = block.next, block_number + 1
    return result


def _read_spans(line: Any, is_detailed: bool, buffer: Any, clip: Any) -> LineSpans:
    content: dict[str, Any] = {}
    if not is_detailed:
        _make_spans(content, line, 0, buffer, clip)
        visible = [span for span in content["spans"] if not span["text"].isspace()]
        sizes = [span["size"] for span in visible]
        if not sizes or min(sizes) > MAX_SCRIPT_SHARE * max(sizes):
            return LineSpans(all(span["flags"] & _BOLD for span in visible), [])
        return LineSpans(False, [_build_span(span) for span in content["spans"]])
    _make_spans(content, line, 1, buffer, clip)
    return LineSpans(False, _list_characters(content["spans"]))


def _build_span(span: Mapping[str, Any]) -> PdfCharacter:
    box, is_bold = span["bbox"], bool(span["flags"] & _BOLD)
    return PdfCharacter(span["text"], box[0], box[2], span["origin"][1], span["size"], span["font"], is_bold, False)


def _list_characters(spans: Iterable[Mapping[str, Any]]) -> list[PdfCharacter]:
    return [
        PdfCharacter(
            character["c"],
            character["bbox"][0],
            character["bbox"][2],
            character["origin"][1],
            span["size"],
            span["font"],
            bool(span["flags"] & _BOLD),
            character["synthetic"],
        )
        for span in spans
        for character in span["chars"]
    ]

"""Lines of a PDF page from MuPDF's JSON. Lines that need it are read again, character by character."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from pymupdf import mupdf

from app.ingestion.parsers.formats.pdf.line_spans import LineSpans, find_symbol_font, read_line_spans
from app.ingestion.parsers.formats.pdf.mupdf_page import JSON_SCALE, print_text_page
from app.ingestion.parsers.formats.pdf.page_links import LinkArea
from app.ingestion.parsers.formats.pdf.right_to_left import order_row_pieces
from app.ingestion.parsers.formats.pdf.span_text import build_line_text
from app.ingestion.parsers.formats.pdf.text_line import RIGHT_TO_LEFT, TextLine, has_mostly_right_to_left
from app.separate_accents import MARKS_BY_ACCENT

MIN_DESCENT = 0.025
"""Minimum depth of a lowered character below the other characters, as a share of the font size."""

_STRING = r'[^"\\]*(?:\\.[^"\\]*)*'
# Reading MuPDF's JSON with a pattern takes two thirds of the time of a JSON parser. Quotes in a text have a backslash,
# so a text cannot contain the parts of the pattern.
_LINE = re.compile(
    r'"wmode":(\d),"bbox":\{"x":(-?\d+),"y":(-?\d+),"w":(-?\d+),"h":(-?\d+),"flags":\d+\},'
    rf'"font":\{{"name":"({_STRING})","family":"[a-z-]+","weight":"(b?)[a-z]+","style":"[a-z]+","size":(\d+)\}},'
    rf'"x":-?\d+,"y":(-?\d+),"text":"({_STRING})"\}}'
)
_BLOCK_START = '{"type":'
_ACCENTS = "".join(accent for accent in MARKS_BY_ACCENT if accent not in "^~")
_SPECIAL = re.compile(f"[{re.escape(_ACCENTS)}\u0300-\u036fþý\ue000-\uf8ff]")
_LOWERED = re.compile(r"[^\W\d_]\d")
_SUPERSCRIPT = re.compile(rb"<sup>(.*?)</sup>")
_MARKUP = re.compile(rb"<[^>]*>")
_ENTITY = re.compile(rb"&#x([0-9a-f]{1,6});")
_BOLD = re.compile(rb"<b>.*?</b>")


@dataclass(slots=True)
class _RawLines:
    """Lines of a page from the JSON, and the places of the lines whose characters are needed.

    Attributes:
        lines: Lines in the order of the file.
        places: Number of the block, and number of the line in the block, for each line.
        fonts: Name of the first font, and height of the base line in points, for each line.
        doubtful: Indexes of the lines that may have raised or lowered characters, or a font that is bold in part.
        detailed: Indexes of the lines whose characters are needed.
        bold: Indexes of the lines that begin in a bold font.
    """

    lines: list[TextLine] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    fonts: list[tuple[str, float]] = field(default_factory=list)
    doubtful: set[int] = field(default_factory=set)
    detailed: set[int] = field(default_factory=set)
    bold: list[int] = field(default_factory=list)


def read_lines(page: Any, links: Sequence[LinkArea] = (), *, has_images: bool = False) -> list[TextLine]:
    """Read the lines of a page in points.

    Args:
        page: Structured text page of MuPDF.
        links: Areas of the web links of the page.
        has_images: Whether the page was loaded with images.

    Returns:
        The lines that are not empty, in the order of the file.
    """
    raw = _read_raw_lines(print_text_page(page, mupdf.fz_print_stext_page_as_json, JSON_SCALE))
    if has_images:  # XHTML would contain the data of the images
        raw.doubtful.update(index for index, line in enumerate(raw.lines) if any(map(str.isdigit, line.text)))
        raw.doubtful.update(raw.bold)
    else:
        _mark_styled_lines(raw, print_text_page(page, mupdf.fz_print_stext_page_as_xhtml, 1))
    if links:
        raw.detailed.update(index for index, line in enumerate(raw.lines) if _has_link(line, links))
    rows = _group_right_to_left_rows(raw)
    raw.detailed.update(*rows)
    if not raw.doubtful and not raw.detailed:
        return raw.lines
    requested = sorted(raw.doubtful | raw.detailed)
    detailed = {raw.places[index] for index in raw.detailed}
    spans = read_line_spans(page, [raw.places[index] for index in requested], detailed)
    return _rebuild_lines(raw, rows, {index: spans[raw.places[index]] for index in requested}, links)


def _read_raw_lines(data: bytes) -> _RawLines:
    raw = _RawLines()
    text = data.decode("utf-8", "replace")
    for block, block_text in enumerate(text.split(_BLOCK_START)[1:]):
        for number, (mode, x, y, width, height, font, bold, size, base, words) in enumerate(_LINE.findall(block_text)):
            if "\\" in words:
                words = json.loads(f'"{words}"')
            if not words or words.isspace():
                continue
            if bold:
                raw.bold.append(len(raw.lines))
            left, top = int(x) / JSON_SCALE, int(y) / JSON_SCALE
            right, bottom = left + int(width) / JSON_SCALE, top + int(height) / JSON_SCALE
            raw.lines.append(
                TextLine(left, top, right, bottom, int(size) / JSON_SCALE, words, block, False, mode == "1")
            )
            raw.places.append((block, number))
            raw.fonts.append((font, int(base) / JSON_SCALE))
    _mark_lowered_lines(raw)
    _mark_special_lines(raw, text)
    return raw


def _mark_lowered_lines(raw: _RawLines) -> None:
    """Mark the lines that are deeper below their base line than other lines in their font."""
    depths = [(line.y1 - base) / (line.size or 1.0) for line, (_, base) in zip(raw.lines, raw.fonts, strict=True)]
    lowest: dict[str, float] = {}
    for (font, _), depth in zip(raw.fonts, depths, strict=True):
        if depth < lowest.get(font, inf):
            lowest[font] = depth
    for index, ((font, _), depth) in enumerate(zip(raw.fonts, depths, strict=True)):
        if depth > lowest[font] + MIN_DESCENT and _LOWERED.search(raw.lines[index].text):
            raw.doubtful.add(index)


def _mark_special_lines(raw: _RawLines, text: str) -> None:
    """Mark the lines with accents that may be separate glyphs, and with characters of symbol fonts."""
    if (not text.isascii() or "`" in text) and _SPECIAL.search(text):
        raw.detailed.update(index for index, line in enumerate(raw.lines) if _SPECIAL.search(line.text))
    if any(map(find_symbol_font, {font for font, _ in raw.fonts})):
        raw.detailed.update(index for index, (font, _) in enumerate(raw.fonts) if find_symbol_font(font))


def _mark_styled_lines(raw: _RawLines, xhtml: bytes) -> None:
    """Mark the lines with raised characters as doubtful, and set whether a line is bold."""
    blocks = xhtml.split(b"\n")[1:]
    if b"<sup>" in xhtml:
        superscripts = {number: _list_superscripts(block) for number, block in enumerate(blocks) if b"<sup>" in block}
        for index, (block, _) in enumerate(raw.places):
            if block in superscripts and any(mark in raw.lines[index].text for mark in superscripts[block]):
                raw.doubtful.add(index)
    are_bold: dict[int, bool] = {}
    for index in raw.bold:
        block = raw.places[index][0]
        if block not in are_bold:
            are_bold[block] = not _MARKUP.sub(b"", _BOLD.sub(b"", blocks[block])).strip()
        if are_bold[block]:
            raw.lines[index] = raw.lines[index]._replace(is_bold=True)
        else:
            raw.doubtful.add(index)


def _list_superscripts(block: bytes) -> set[str]:
    marks = (_ENTITY.sub(_decode_entity, _MARKUP.sub(b"", match)).strip() for match in _SUPERSCRIPT.findall(block))
    texts = {mark.decode("utf-8", "replace") for mark in marks}
    return {text for text in texts if text and any(map(str.isalnum, text))}


def _decode_entity(match: re.Match[bytes]) -> bytes:
    return chr(min(int(match[1], 16), 0x10FFFF)).encode("utf-8", "replace")


def _has_link(line: TextLine, links: Sequence[LinkArea]) -> bool:
    middle = (line.y0 + line.y1) / 2
    return any(link.y0 <= middle <= link.y1 and link.x0 < line.x1 and line.x0 < link.x1 for link in links)


def _group_right_to_left_rows(raw: _RawLines) -> list[list[int]]:
    """Return the indexes of the lines of each row that has text from right to left."""
    indexes = [
        index for index, line in enumerate(raw.lines) if not line.text.isascii() and RIGHT_TO_LEFT.search(line.text)
    ]
    if not indexes:
        return []
    rows: list[list[int]] = []
    for index in sorted(range(len(raw.lines)), key=lambda item: (raw.fonts[item][1], raw.lines[item].x0)):
        size = raw.lines[index].size
        if rows and raw.fonts[index][1] - raw.fonts[rows[-1][0]][1] <= 0.3 * size:
            rows[-1].append(index)
        else:
            rows.append([index])
    right_to_left = set(indexes)
    return [row for row in rows if not right_to_left.isdisjoint(row)]


def _rebuild_lines(
    raw: _RawLines, rows: Sequence[Sequence[int]], spans: Mapping[int, LineSpans], links: Sequence[LinkArea]
) -> list[TextLine]:
    row_of = {min(row): row for row in rows}
    in_rows = {index for row in rows for index in row}
    is_right_to_left_page = has_mostly_right_to_left(raw.lines)
    result: list[TextLine] = []
    for index, line in enumerate(raw.lines):
        if index not in in_rows:
            result.append(_rebuild_line(line, spans[index], links) if index in spans else line)
        elif row := row_of.get(index):
            y0, y1 = min(raw.lines[item].y0 for item in row), max(raw.lines[item].y1 for item in row)
            members = [character for item in sorted(row) for character in spans[item].characters]
            for piece in order_row_pieces(members, is_right_to_left_page=is_right_to_left_page):
                x0, x1 = min(item.x0 for item in piece), max(item.x1 for item in piece)
                box = line._replace(x0=x0, x1=x1, y0=y0, y1=y1)
                result.append(_rebuild_line(box, LineSpans(False, piece), links))
    return [line for line in result if line.text and not line.text.isspace()]


def _rebuild_line(line: TextLine, spans: LineSpans, links: Sequence[LinkArea]) -> TextLine:
    if not spans.characters:
        return line._replace(is_bold=spans.is_bold)
    nearby = [link for link in links if link.y0 < line.y1 and line.y0 < link.y1]
    text, style = build_line_text(spans.characters, nearby)
    return line._replace(text=text, size=style.size, is_bold=style.is_bold)

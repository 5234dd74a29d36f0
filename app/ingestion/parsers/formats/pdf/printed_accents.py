"""Accents that a PDF page prints as glyphs over or under their letters. Positions show to which letter one belongs."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pymupdf import mupdf

from app.separate_accents import MARKS_BY_ACCENT, compose_letter, find_mark

_ACCENT = re.compile("[" + re.escape("".join(MARKS_BY_ACCENT)) + "]")
_MAX_GAP = 0.15
"""Maximum width of a gap inside a word, as a share of the font size. A wider gap is a space."""


class Glyph(NamedTuple):
    """Character of a printed line, with its left and right edge and its font size in points."""

    character: str
    x0: float
    x1: float
    size: float


def has_accent(text: str) -> bool:
    """Return whether a text has a character that may be a separate accent."""
    return _ACCENT.search(text) is not None


def list_printed_lines(text: Any) -> list[Any]:
    """Return the lines of a page that are not blank, in the order of MuPDF, as its own objects.

    Args:
        text: Structured text page of MuPDF.
    """
    blocks = (block for block in text if block.m_internal.type == mupdf.FZ_STEXT_BLOCK_TEXT)
    return [line for block in blocks for line in block if any(not _read_character(each).isspace() for each in line)]


def read_glyphs(line: Any) -> list[Glyph]:
    """Return the glyphs of a line of MuPDF, in the order of the file."""
    return [_build_glyph(character) for character in line]


def compose_printed_accents(glyphs: Sequence[Glyph], text: str) -> str:
    """Return the text of a line, in which each accent that is printed at a letter is composed with the letter.

    A space between the accent and its word is left out if the letter follows the word without a gap.

    Args:
        glyphs: Glyphs of the line, in the order of the file.
        text: Text of the line. It is returned unchanged if it is not the text of the glyphs.
    """
    if "".join(glyph.character for glyph in glyphs) != text:
        return text
    result: list[Glyph] = []
    index = 0
    while index < len(glyphs):
        glyph = glyphs[index]
        following = _find_visible(glyphs, index + 1)
        if glyph.character in MARKS_BY_ACCENT and following < len(glyphs) and _is_over(glyph, glyphs[following]):
            letter = glyphs[following]
            _drop_narrow_spaces(result, letter)
            result.append(_compose_glyph(glyph, letter))
            index = following + 1
            continue
        if glyph.character in MARKS_BY_ACCENT and result:
            previous = _find_visible(result, len(result) - 1, step=-1)
            if previous >= 0 and _is_over(glyph, result[previous]):
                result[previous:] = [_compose_glyph(glyph, result[previous])]
                index += 1
                continue
        result.append(glyph)
        index += 1
    return "".join(glyph.character for glyph in result)


def _build_glyph(character: Any) -> Glyph:
    box = character.m_internal.quad
    x0, x1 = min(box.ul.x, box.ll.x, box.ur.x), max(box.ur.x, box.lr.x, box.ul.x)
    return Glyph(_read_character(character), x0, x1, character.m_internal.size)


def _read_character(character: Any) -> str:
    code = character.m_internal.c
    return chr(code) if 0 <= code < 0x110000 else "\ufffd"


def _find_visible(glyphs: Sequence[Glyph], index: int, step: int = 1) -> int:
    """Return the position of the next glyph that is no space, or the position behind the last glyph."""
    while 0 <= index < len(glyphs) and glyphs[index].character.isspace():
        index += step
    return index


def _is_over(accent: Glyph, letter: Glyph) -> bool:
    """Return whether the middle of an accent is over a letter that has this accent in some language."""
    middle = (accent.x0 + accent.x1) / 2
    return letter.x0 <= middle <= letter.x1 and find_mark(accent.character, letter.character) is not None


def _compose_glyph(accent: Glyph, letter: Glyph) -> Glyph:
    mark = find_mark(accent.character, letter.character) or ""
    return letter._replace(character=compose_letter(letter.character, mark))


def _drop_narrow_spaces(glyphs: list[Glyph], letter: Glyph) -> None:
    """Remove the spaces at the end of the glyphs if the letter follows the last word without a gap."""
    last = _find_visible(glyphs, len(glyphs) - 1, step=-1)
    if 0 <= last < len(glyphs) - 1 and letter.x0 - glyphs[last].x1 < _MAX_GAP * letter.size:
        del glyphs[last + 1 :]

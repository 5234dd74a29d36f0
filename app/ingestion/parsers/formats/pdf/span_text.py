"""Text of a printed line from its characters: accents, symbols, raised and lowered characters, and links."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.line_spans import MAX_SCRIPT_SHARE, PdfCharacter, find_symbol_font
from app.ingestion.parsers.formats.pdf.page_links import LinkArea, find_link
from app.ingestion.parsers.formats.pdf.separate_glyphs import compose_accents
from app.ingestion.parsers.toolkit.superscripts import format_note_mark, format_subscript, format_superscript
from app.ingestion.parsers.toolkit.symbol_fonts import replace_symbols

MIN_SHIFT = 0.08
"""Minimum distance of a raised or lowered character from the base line, as a share of the font size of the line."""

MIN_GAP = 0.06
"""Minimum gap between a superscript and a word that begins after it, as a share of the font size of the line."""

_MAX_SCRIPT_CHARACTERS = 12
_BOLD_SHARE = 0.9
_UNIT = re.compile(r"(?:^|[\W\d_])[^\W\d_]{1,2}$")
_EXPONENT = re.compile(r"[-−–+]\s?\d")


class LineStyle(NamedTuple):
    """Style of a line: font size and base line of most of its characters, and whether it is bold."""

    size: float
    base: float
    is_bold: bool


def measure_style(characters: Sequence[PdfCharacter]) -> LineStyle:
    """Return the style of most characters of a line that has visible characters."""
    lengths: Counter[tuple[float, float]] = Counter()
    bold_length = 0
    for character in characters:
        length = 0 if character.text.isspace() else len(character.text)
        lengths[character.size, character.base] += length
        bold_length += length if character.is_bold else 0
    (size, base), _ = lengths.most_common(1)[0]
    return LineStyle(size, base, bold_length >= _BOLD_SHARE * lengths.total())


def build_line_text(
    characters: Sequence[PdfCharacter], links: Sequence[LinkArea] = (), *, style: LineStyle | None = None
) -> tuple[str, LineStyle]:
    """Build the text of a line.

    Accents are composed with their letters, and characters of symbol fonts become the symbols that they show. Small
    raised and lowered characters become superscripts and subscripts.

    Args:
        characters: Characters of the line, in reading order.
        links: Areas of web links at the height of the line.
        style: Style of the whole line, if the characters are a piece of it; None to measure it.

    Returns:
        The text, and the style of most characters.
    """
    style = style or measure_style(characters)
    text, label_start, label_link = "", 0, -1
    pieces = list(_iter_pieces(compose_accents(characters), links, style))
    for index, (link, shift, piece) in enumerate(pieces):
        if link != label_link:
            text = _close_link(text, label_start, links, label_link)
            label_start, label_link = len(text), link
        following = pieces[index + 1][2] if index + 1 < len(pieces) else ""
        is_logo = shift and piece.isalpha() and text[-1:].isalpha() and following[:1].isalpha()
        text += piece if is_logo else _format_piece(piece, shift, text)
    return _close_link(text, label_start, links, label_link), style


def _close_link(text: str, start: int, links: Sequence[LinkArea], link: int) -> str:
    return text if link < 0 else text[:start] + links[link].format_label(text[start:])


def _format_piece(piece: str, shift: int, before: str) -> str:
    core = piece.strip()
    if not shift or not core or len(core) > _MAX_SCRIPT_CHARACTERS or len(core.split()) > 1:
        return piece
    if shift < 0:
        return format_subscript(piece, before=before)
    if _is_note_mark(core, before):
        return format_note_mark(piece, before=before)
    return format_superscript(piece, before=before)


def _iter_pieces(
    characters: Sequence[PdfCharacter], links: Sequence[LinkArea], style: LineStyle
) -> Iterator[tuple[int, int, str]]:
    """Yield the pieces of a line: index of the link or -1; 1 for raised, -1 for lowered, 0 for other text; the text."""
    shifts = [_find_shift(character, style) for character in characters]
    for index, character in enumerate(characters):
        if character.text.isspace():  # a space belongs to the piece before it
            shifts[index] = shifts[index - 1] if index and not character.is_synthetic else 0
    areas = [find_link(character, links) for character in characters] if links else [-1] * len(characters)
    keys = zip(areas, shifts, characters, strict=True)
    previous: PdfCharacter | None = None
    for (area, shift, font), group in groupby(keys, key=lambda item: (item[0], item[1], item[2].font)):
        members = [character for _, _, character in group]
        piece = "".join([character.text for character in members])
        if (symbol_font := find_symbol_font(font)) or not piece.isprintable():
            piece = replace_symbols(piece, symbol_font)[0]
        if previous and not shift and _is_glued(previous, members[0], style):
            piece = f" {piece}"
        yield area, shift, piece
        previous = members[-1] if shift else None


def _is_glued(script: PdfCharacter, following: PdfCharacter, style: LineStyle) -> bool:
    """Return whether there is a small gap without a space between a superscript and the following word."""
    is_word = script.text[-1:].isalnum() and following.text[:1].isalpha()
    return is_word and following.x0 - script.x1 > MIN_GAP * style.size


def _find_shift(character: PdfCharacter, style: LineStyle) -> int:
    if character.size > MAX_SCRIPT_SHARE * style.size:
        return 0
    offset = style.base - character.base
    return 0 if abs(offset) < MIN_SHIFT * style.size else 1 if offset > 0 else -1


def _is_note_mark(mark: str, before: str) -> bool:
    """Return whether a raised text is the mark of a note, not an exponent.

    Exponents follow a number, a unit such as m, or a variable, or begin with a sign.
    """
    if not before or _EXPONENT.match(mark) or before[-1].isdigit():
        return False
    if before[-1] in ")]}" and mark.isdigit():
        return False
    if mark[0] in "([{":
        return True
    return any(character.isalnum() for character in mark) and not _UNIT.search(before[-4:])

"""Reading order of lines with Arabic, Hebrew or Persian text, from the places of the characters on the page.

MuPDF reverses each run of letters from right to left, but the runs stay in the order of the page. This module inverts
the Unicode Bidirectional Algorithm (Unicode Standard Annex 9) for a whole line.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.line_spans import PdfCharacter

MAX_GAP = 1.0
"""Maximum gap between two words of one piece of a line, as a share of the font size."""

MIN_SPACE = 0.18
"""Minimum gap that is a space, as a share of the font size."""

MIN_WIDTH = 0.01
"""Minimum width of a printed character in points. MuPDF gives no width to characters without a glyph."""

MAX_SHARE_WITHOUT_PLACE = 0.25
"""Maximum share of characters without a place on the page. If more have none, the order of the file stays."""

_JOINERS = ("\u200c", "\u200d")
_TOLERANCE = 0.1
_MIRRORED = dict(zip("()[]{}<>«»‹›", ")(][}{><»«›‹", strict=True))
_OPENING = frozenset("([{«‹")


class _Glyph(NamedTuple):
    """Printed glyph: its characters, such as a letter with its marks, and its direction.

    The direction is R for letters from right to left, and L for other letters. It is N for European digits and A for
    Arabic digits. It is S for separators of numbers, T for signs at numbers, W for spaces, and O for other signs.
    """

    x0: float
    x1: float
    characters: tuple[PdfCharacter, ...]
    direction: str


_DIRECTIONS = {
    "R": "R",
    "AL": "R",
    "L": "L",
    "EN": "N",
    "AN": "A",
    "ES": "S",
    "CS": "S",
    "ET": "T",
    "WS": "W",
    "B": "W",
    "S": "W",
}


def order_row_pieces(characters: Sequence[PdfCharacter], *, is_right_to_left_page: bool) -> list[list[PdfCharacter]]:
    """Put the characters of a row in reading order.

    Args:
        characters: Characters of a row, in any order of its runs.
        is_right_to_left_page: Whether most text of the page runs from right to left.

    Returns:
        The characters of each piece between wide gaps. The pieces are in the order of the page, from left to right.
    """
    without_place = sum(
        item.x1 - item.x0 < MIN_WIDTH and not unicodedata.combining(item.text[:1]) for item in characters
    )
    if without_place > MAX_SHARE_WITHOUT_PLACE * len(characters):
        return [list(characters)]
    glyphs = sorted(_list_glyphs(characters), key=lambda glyph: (round(glyph.x0, 1), glyph.x1))
    pieces: list[list[_Glyph]] = []
    for glyph in glyphs:
        previous = pieces[-1][-1] if pieces else None
        size = glyph.characters[0].size
        gap = glyph.x0 - previous.x1 if previous else 0.0
        if previous is None or (gap > MAX_GAP * size and previous.x1 - previous.x0 > MIN_WIDTH):
            pieces.append([glyph])
            continue
        is_measured = previous.x1 - previous.x0 > MIN_WIDTH  # a replaced text has no width
        if is_measured and gap > MIN_SPACE * size and "W" not in (glyph.direction, previous.direction):
            space = glyph.characters[0]._replace(text=" ", x0=previous.x1, x1=glyph.x0, is_synthetic=True)
            pieces[-1].append(_Glyph(space.x0, space.x1, (space,), "W"))
        pieces[-1].append(glyph)
    return [_order_piece(piece, is_right_to_left_page) for piece in pieces]


def _list_glyphs(characters: Sequence[PdfCharacter]) -> list[_Glyph]:
    """Join the characters of one glyph: a letter and its marks, or the letters of a ligature."""
    glyphs: list[list[PdfCharacter]] = []
    pending: list[PdfCharacter] = []
    for character in characters:
        if character.is_synthetic:
            continue
        is_mark = unicodedata.combining(character.text[:1]) > 0
        is_narrow = character.x1 - character.x0 < MIN_WIDTH and character.text not in _JOINERS
        is_attached = bool(glyphs) and (is_mark or abs(glyphs[-1][0].x1 - character.x0) < _TOLERANCE)
        if (is_narrow or is_mark) and is_attached and not pending:
            glyphs[-1].append(character)
        elif is_narrow or is_mark:
            pending.append(character)
        else:
            _attach(glyphs, character, pending)
            pending = []
    if pending:
        glyphs.append(pending[::-1])
    return [_Glyph(*_find_edges(group[0]), tuple(group), _find_direction(group[0].text)) for group in glyphs]


def _find_edges(character: PdfCharacter) -> tuple[float, float]:
    return (character.x0, character.x0) if character.text in _JOINERS else (character.x0, character.x1)


def _attach(glyphs: list[list[PdfCharacter]], character: PdfCharacter, pending: list[PdfCharacter]) -> None:
    """Add a glyph with the characters before it that have no width: MuPDF reverses the letters of a ligature."""
    if pending and abs(character.x1 - pending[0].x0) >= _TOLERANCE:
        glyphs.append(pending[::-1])
        pending = []
    glyphs.append([character, *reversed(pending)])


def _find_direction(text: str) -> str:
    return _DIRECTIONS.get(unicodedata.bidirectional(text[:1] or " "), "O")


def _order_piece(glyphs: list[_Glyph], is_right_to_left_page: bool) -> list[PdfCharacter]:
    is_right_to_left = _is_right_to_left([glyph.direction for glyph in glyphs], is_right_to_left_page)
    if is_right_to_left:
        ordered = _order_right_to_left(glyphs)
    else:
        ordered = []
        for start, end, direction in _list_right_runs(glyphs):
            ordered += _order_right_to_left(glyphs[start:end]) if direction else glyphs[start:end]
    return [character for glyph in _swap_brackets(ordered) for character in glyph.characters]


def _is_right_to_left(directions: Sequence[str], is_right_to_left_page: bool) -> bool:
    """Return whether a piece of a line runs from right to left.

    Letters at both ends of the piece decide. A piece between Latin words runs from right to left only if it has more
    such letters than Latin ones.
    """
    strong = [direction for direction in directions if direction in "RL"]
    if not strong:
        return False
    is_mostly_right = 2 * strong.count("R") > len(strong)
    if strong[0] == strong[-1]:
        return strong[0] == "R" or is_mostly_right
    return is_mostly_right or is_right_to_left_page


def _list_right_runs(glyphs: Sequence[_Glyph]) -> list[tuple[int, int, bool]]:
    """Return the runs of a line from left to right: start, end, and whether the run is from right to left."""
    runs: list[tuple[int, int, bool]] = []
    start, first, last = 0, -1, -1
    for index, glyph in enumerate(glyphs):
        if glyph.direction == "R":
            first, last = (index, index) if first < 0 else (first, index)
        elif glyph.direction == "L" and first >= 0:
            runs += [(start, first, False), (first, last + 1, True)]
            start, first = last + 1, -1
    if first >= 0:
        runs += [(start, first, False), (first, last + 1, True)]
        start = last + 1
    return [*runs, (start, len(glyphs), False)]


def _order_right_to_left(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Return the glyphs from right to left, with Latin words and numbers from left to right."""
    runs: list[Sequence[_Glyph]] = []
    index = 0
    while index < len(glyphs):
        end = _find_run_end(glyphs, index)
        runs.append(glyphs[index:end])
        index = end
    return [glyph for run in reversed(runs) for glyph in run]


def _find_run_end(glyphs: Sequence[_Glyph], start: int) -> int:
    """Return the end of the run from left to right that begins at a glyph; one glyph for any other run."""
    direction = glyphs[start].direction
    if direction == "L" or (direction in "NT" and _is_before_latin(glyphs, start)):
        last = start
        for index in range(start, len(glyphs)):
            if glyphs[index].direction in "RA":
                break
            if glyphs[index].direction in "LN" or _is_closing_bracket(glyphs, start, last, index):
                last = index
        return last + 1
    if direction not in "NAT":
        return start + 1
    last = start
    for index in range(start + 1, len(glyphs)):
        following = glyphs[index + 1].direction if index + 1 < len(glyphs) else ""
        if glyphs[index].direction in "NAT":
            last = index
        elif glyphs[index].direction != "S" or following not in ("N", "A"):
            break
    return last + 1 if any(glyph.direction in "NA" for glyph in glyphs[start : last + 1]) else start + 1


def _is_before_latin(glyphs: Sequence[_Glyph], start: int) -> bool:
    """Return whether a Latin letter follows a number on the page before any other word from right to left."""
    for index in range(start, min(len(glyphs), start + 40)):
        if glyphs[index].direction in "RAL" or glyphs[index].characters[0].text in _MIRRORED:
            return glyphs[index].direction == "L"
    return False


def _is_closing_bracket(glyphs: Sequence[_Glyph], start: int, last: int, index: int) -> bool:
    """Return whether a glyph directly after a run closes a bracket that the run opens."""
    opening = _MIRRORED.get(glyphs[index].characters[0].text, "")
    return (
        index == last + 1
        and opening in _OPENING
        and any(glyph.characters[0].text == opening for glyph in glyphs[max(start, last - 80) : last + 1])
    )


def _swap_brackets(glyphs: list[_Glyph]) -> list[_Glyph]:
    """Replace brackets that a file stores as they look on the page, by their places before and after words."""
    if not any(glyph.characters[0].text in _MIRRORED for glyph in glyphs):
        return glyphs
    result = []
    for index, glyph in enumerate(glyphs):
        text = glyph.characters[0].text
        if text in _MIRRORED:
            before = glyphs[index - 1].direction if index else "W"
            after = glyphs[index + 1].direction if index + 1 < len(glyphs) else "W"
            is_start = before == "W" and after != "W"
            is_end = after == "W" and before != "W"
            if (is_start and text not in _OPENING) or (is_end and text in _OPENING):
                glyph = glyph._replace(characters=(glyph.characters[0]._replace(text=_MIRRORED[text]),))
        result.append(glyph)
    return result

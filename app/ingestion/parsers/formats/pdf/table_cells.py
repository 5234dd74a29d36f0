"""Cells of printed rows: currency signs, brackets and ``%`` are joined to their numbers."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.ingestion.parsers.formats.pdf.text_line import TextLine, join_pieces
from app.ingestion.parsers.toolkit.text_cleanup import clean_line

MAX_VALUE_CHARACTERS = 24
_SPACE_WIDTH = 0.25
"""Width of a space as a share of the font size."""

_WORDS = re.compile(r"\S+")
_PARTS = re.compile(r"\S+(?: \S+)*")
_SIGN = "$€£¥"
_OPENING = frozenset({*_SIGN, "(", "$(", "€(", "£(", "($", "(€", "(£", "US$", "C$", "A$", "HK$"})
_CLOSING = frozenset({")", "%", ")%", "%)", "pts", "bps", "pp"})
_NUMBER_BEFORE_SIGN = re.compile(r"[^$€£¥]*\d[\d.,]*[)%]{0,2} [$€£¥]")
_VALUE_START = re.compile(r"[(\-+−–—.,\d]")
_INNER_SPACE = re.compile(r"(?<=[$€£¥(]) +| +(?=\))")
_NARROW = re.compile(r"[\s.,:;'()|!iljI1\[\]]")
_BULLET = re.compile(r"[•‣▪●○◦■□–\-*·➢✓]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]")
_VALUE = re.compile(
    r"[-+−–(~<>±]{0,2} ?(?:[$€£¥]|US\$|EUR|USD|GBP|CHF)? ?[-+−–(]{0,2} ?"
    r"[.,]?\d(?:[\d.,'’:/–-]*\d)?(?: \d{3}(?!\d))*"
    r" ?(?:%|‰|[€£$¥°]?[^\W\d_]{0,7}(?:[/²³][^\W\d_]{0,4}[²³]?)?)\)? ?%?[*†‡]{0,2}(?: ?\(\w\))?"
)
_WORDS_FOR_VALUES = frozenset(
    {
        "-",
        "–",
        "—",
        "−",
        "--",
        "---",
        "n/a",
        "na",
        "n.a.",
        "nm",
        "n/m",
        "n.m.",
        "*",
        "✓",
        "✗",
        "✔",
        "✘",
        "☒",
        "☐",
        "☑",
        "x",
    }
)
_POSTAL_CODE = re.compile(r"\d{4,5} [A-ZÀ-Þ][a-zß-ÿ]")
_YEAR = re.compile(r"(?:FY ?|CY ?)?'?(?:19|20)\d\d(?:[AEF]| ?\([a-z\d]{1,2}\))?")


class Cell(NamedTuple):
    """Cell of a printed row.

    Attributes:
        x0: Left edge in points.
        x1: Right edge.
        text: Text without white space at its ends.
    """

    x0: float
    x1: float
    text: str


@lru_cache(maxsize=4096)
def is_value(text: str) -> bool:
    """Return whether a cell is a number, possibly with a unit, or a sign for a missing number."""
    if len(text) > MAX_VALUE_CHARACTERS:
        return False
    if _VALUE.fullmatch(text) is None:
        return text.casefold() in _WORDS_FOR_VALUES
    return _POSTAL_CODE.match(text) is None


def is_year(text: str) -> bool:
    """Return whether a cell is a year, possibly with the letters of a fiscal year before it."""
    return len(text) <= MAX_VALUE_CHARACTERS and _YEAR.fullmatch(text) is not None


def is_bullet(text: str) -> bool:
    """Return whether a text is a bullet or the number of an item, such as (a) or 1."""
    return len(text) <= 6 and _BULLET.fullmatch(text) is not None


def read_cells(row: Sequence[TextLine]) -> list[Cell]:
    """Read the cells of a row.

    A piece with two numbers becomes two cells. A bullet or an item number becomes a part of the text on its right.

    Args:
        row: Pieces of a printed row, from left to right.

    Returns:
        The cells, from left to right.
    """
    cells: list[Cell] = []
    has_sign = False
    if any(right.x0 < left.x1 - 2 for left, right in pairwise(row)):
        row = _join_stacked(row)
    for piece in row:
        text = piece.text
        if len(text) > 3 and text.isprintable() and "  " not in text and text[-1] != " " and text[0] != " ":
            cells.append(Cell(piece.x0, piece.x1, text))  # spaces that do not break are not printable
            has_sign = has_sign or text[-1] in _SIGN
            continue
        parts = _split_piece(piece)
        cells += parts
        has_sign = has_sign or any(len(part.text) <= 3 for part in parts)
    if has_sign:
        cells = _join_signs(cells)
    if len(cells) > 1 and is_bullet(cells[0].text) and _is_item(cells):
        cells[:2] = [Cell(cells[0].x0, cells[1].x1, f"{cells[0].text} {cells[1].text}")]
    return cells


def _join_stacked(row: Sequence[TextLine]) -> list[TextLine]:
    """Join the pieces of a row that are above each other, such as the lines of a header cell."""
    stacks: list[list[TextLine]] = []
    right = float("-inf")
    for piece in row:
        if piece.x0 < right - 2:
            stacks[-1].append(piece)
        else:
            stacks.append([piece])
        right = max(right, piece.x1)
    return [join_pieces(sorted(stack, key=lambda piece: piece.y0)) for stack in stacks]


def _is_item(cells: Sequence[Cell]) -> bool:
    return not is_value(cells[1].text) and (len(cells) == 2 or not cells[0].text[-1].isalnum())


def _split_piece(piece: TextLine) -> list[Cell]:
    """Split a piece at runs of spaces if one of its parts is a number. Positions inside the piece are estimates."""
    text = piece.text.replace("\xa0", " ")
    stripped = text.strip()
    if (
        stripped
        and "  " not in stripped
        and (stripped[-1] not in _SIGN or len(stripped) == 1)
        and stripped.isprintable()
    ):
        space = _SPACE_WIDTH * piece.size
        left = piece.x0 + space * (len(text) - len(text.lstrip()))
        right = piece.x1 - space * (len(text) - len(text.rstrip()))
        return [Cell(left, max(left, right), stripped)]
    spans = [match.span() for match in _PARTS.finditer(text)]
    if len(spans) > 1 and not any(is_value(text[start:end]) or text[start:end] in _OPENING for start, end in spans):
        spans = [(spans[0][0], spans[-1][1])]
    places, scale = _estimate_places(piece)
    cells = []
    for start, end in spans:
        x0, x1 = places[start], places[end]
        part = clean_line(text[start:end])
        if not part:
            continue
        if part[-1] in _SIGN and _NUMBER_BEFORE_SIGN.fullmatch(part):
            cells += [Cell(x0, x1 - 2 * scale, part[:-2]), Cell(x1 - scale, x1, part[-1])]
        else:
            cells.append(Cell(x0, x1, part))
    return cells


def _estimate_places(piece: TextLine) -> tuple[list[float], float]:
    """Return the estimated x coordinate of each character of a piece and of its end, and the width of a digit."""
    places = list(accumulate((0.5 if _NARROW.match(character) else 1.0 for character in piece.text), initial=0.0))
    scale = (piece.x1 - piece.x0) / (places[-1] or 1.0)
    return [piece.x0 + scale * place for place in places], scale


def split_words(piece: TextLine) -> list[TextLine]:
    """Split a piece of a line at its spaces. The positions of the words are estimates.

    Args:
        piece: The piece.

    Returns:
        The words, from left to right.
    """
    places, _ = _estimate_places(piece)
    spans = (match.span() for match in _WORDS.finditer(piece.text))
    return [piece._replace(x0=places[start], x1=places[end], text=piece.text[start:end]) for start, end in spans]


def _join_signs(cells: Sequence[Cell]) -> list[Cell]:
    """Join a currency sign to the number on its right, and a bracket or ``%`` to the number on its left."""
    joined: list[Cell] = []
    prefix: Cell | None = None
    for cell in cells:
        text = cell.text
        if prefix is not None:
            if _VALUE_START.match(text) and is_value(text.rstrip(" )%") or text):
                cell = Cell(prefix.x0, cell.x1, prefix.text + text)
            elif text in _OPENING:
                prefix = Cell(prefix.x0, cell.x1, prefix.text + text)
                continue
            else:
                joined.append(prefix)
            prefix = None
        elif text in _OPENING:
            prefix = cell
            continue
        elif text in _CLOSING and joined and joined[-1].text[-1:].isdigit() | (joined[-1].text[-1:] == ")"):
            joined[-1] = joined[-1]._replace(text=joined[-1].text + text)
            continue
        joined.append(cell)
    if prefix is not None:
        joined.append(prefix)
    return [
        cell._replace(text=_INNER_SPACE.sub("", cell.text)) if " " in cell.text and is_value(cell.text) else cell
        for cell in joined
    ]

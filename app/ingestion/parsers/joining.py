"""Printed lines → one paragraph: cleaned, parted words made whole, and where each line is in it."""

import re
import unicodedata
from collections.abc import Iterable, Set

from app.ingestion.parsers.cleaning import clean_line

_SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010")
_LONGEST_WORD = 100
_LAST_WORD = re.compile(r"\w+$")
_WORD = re.compile(r"\w+")


def join_lines(parts: Iterable[str], hyphenated: Set[str] = frozenset()) -> tuple[str, list[tuple[int, int]]]:
    """One paragraph from its lines, and each line's range in it; that of a line without text is empty.

    A word parted by a hyphen before a small letter becomes whole again; the hyphen stays where the word is among those
    ``hyphenated``. Lines are cleaned one by one, so that nothing moves afterwards.
    """
    pieces: list[str] = []
    ranges: list[tuple[int, int]] = []
    above, softly, place, position = "", False, 0, 0
    for raw in parts:
        line = clean_line(raw)
        if line:
            if above and not ((softly or above.endswith(_HYPHENS)) and _parted(above, line, softly=softly)):
                pieces.append(" ")
                position += 1
            elif above and not softly and _compound(above, line) not in hyphenated:
                pieces[-1] = above[:-1]
                position -= 1
                ranges[place] = ranges[place][0], position
            pieces.append(line)
            above, softly, place = line, raw.rstrip().endswith(_SOFT_HYPHEN), len(ranges)
        ranges.append((position, position + len(line)))
        position += len(line)
    return "".join(pieces), ranges


def _parted(above: str, line: str, *, softly: bool) -> bool:
    """Whether a word goes on from one line to the next; never where the joint would have to be normalised again."""
    if unicodedata.combining(line[0]) or not unicodedata.is_normalized("NFKC", above[-1] + line[0]):
        return False
    return softly or (above[-2:-1].isalpha() and line[0].islower())


def _compound(above: str, line: str) -> str:
    """The word that is parted, with its hyphen, in small letters."""
    start = _LAST_WORD.search(above, max(0, len(above) - _LONGEST_WORD), len(above) - 1)
    end = _WORD.match(line)
    return f"{start[0]}-{end[0]}".lower() if start and end else ""

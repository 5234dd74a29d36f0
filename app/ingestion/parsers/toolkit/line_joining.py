"""Printed lines → one paragraph: cleaned, parted words made whole, and where each line is in it."""

import re
import unicodedata
from collections.abc import Iterable, Set

from app.ingestion.parsers.toolkit.text_cleanup import clean_line

_SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010")
_MAX_WORD_CHARACTERS = 100
_LAST_WORD = re.compile(r"\w+$")
_WORD = re.compile(r"\w+")


def join_lines(parts: Iterable[str], hyphenated: Set[str] = frozenset()) -> tuple[str, list[tuple[int, int]]]:
    """One paragraph from its lines, and each line's range in it; that of a line without text is empty.

    A word parted by a hyphen before a small letter becomes whole again; the hyphen stays where the word is among those
    ``hyphenated``. Lines are cleaned one by one, so that nothing moves afterwards.
    """
    pieces: list[str] = []
    ranges: list[tuple[int, int]] = []
    previous, has_soft_hyphen, previous_index, position = "", False, 0, 0
    for raw_line in parts:
        line = clean_line(raw_line)
        if line:
            if previous and not (
                (has_soft_hyphen or previous.endswith(_HYPHENS))
                and _is_split_word(previous, line, has_soft_hyphen=has_soft_hyphen)
            ):
                pieces.append(" ")
                position += 1
            elif previous and not has_soft_hyphen and _build_compound(previous, line) not in hyphenated:
                pieces[-1] = previous[:-1]
                position -= 1
                ranges[previous_index] = ranges[previous_index][0], position
            pieces.append(line)
            previous, has_soft_hyphen, previous_index = line, raw_line.rstrip().endswith(_SOFT_HYPHEN), len(ranges)
        ranges.append((position, position + len(line)))
        position += len(line)
    return "".join(pieces), ranges


def _is_split_word(previous: str, line: str, *, has_soft_hyphen: bool) -> bool:
    """Whether a word goes on from one line to the next; never where the joint would have to be normalised again."""
    if unicodedata.combining(line[0]) or not unicodedata.is_normalized("NFKC", previous[-1] + line[0]):
        return False
    return has_soft_hyphen or (previous[-2:-1].isalpha() and line[0].islower())


def _build_compound(previous: str, line: str) -> str:
    """The word that is parted, with its hyphen, in small letters."""
    start = _LAST_WORD.search(previous, max(0, len(previous) - _MAX_WORD_CHARACTERS), len(previous) - 1)
    end = _WORD.match(line)
    return f"{start[0]}-{end[0]}".lower() if start and end else ""

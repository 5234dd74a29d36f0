"""Joining of printed lines into one paragraph, with hyphenated words made whole."""

import re
import unicodedata
from collections.abc import Iterable, Set

from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.separate_accents import MARKS_BY_ACCENT

_SOFT_HYPHEN = "\u00ad"
_HYPHENS = ("-", "\u2010", "\u2011")
_MAX_WORD_CHARACTERS = 100
_LAST_WORD = re.compile(r"\w+$")
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(
    "[\u2e80-\u312f\u3190-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)


def join_lines(parts: Iterable[str], hyphenated: Set[str] = frozenset()) -> tuple[str, list[tuple[int, int]]]:
    """Join printed lines into one paragraph.

    A word that is split by a hyphen at the end of a line becomes whole again if it continues with a lowercase letter.
    A word that is split by a soft hyphen always becomes whole again. Chinese and Japanese lines are joined without a
    space.
    Each line is cleaned before the join, so that the ranges stay valid.

    Args:
        parts: Printed lines, in reading order.
        hyphenated: Words that are spelled with a hyphen, in lowercase. Such a word keeps its hyphen at a line end.

    Returns:
        The text of the paragraph, and the range of each line in it, as offsets in code points. The range of a line
        without text is empty.
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
                if not _is_unspaced(previous, line):
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
    """Return whether a word continues from one line to the next.

    False if the characters at the joint form another character: joining them would undo the normalization.
    """
    if unicodedata.combining(line[0]) or not unicodedata.is_normalized("NFC", previous[-1] + line[0]):
        return False
    if previous[-1] in MARKS_BY_ACCENT or line[0] in MARKS_BY_ACCENT:
        return False
    return has_soft_hyphen or (previous[-2:-1].isalpha() and line[0].islower())


def _is_unspaced(previous: str, line: str) -> bool:
    """Return whether both characters at the joint are of a script without spaces, such as Chinese or Japanese."""
    return previous[-1] >= "\u2e80" and _UNSPACED.match(previous[-1]) is not None and _UNSPACED.match(line) is not None


def _build_compound(previous: str, line: str) -> str:
    """Return the word that is split between two lines, with its hyphen, in lowercase."""
    start = _LAST_WORD.search(previous, max(0, len(previous) - _MAX_WORD_CHARACTERS), len(previous) - 1)
    end = _WORD.match(line)
    return f"{start[0]}-{end[0]}".lower() if start and end else ""

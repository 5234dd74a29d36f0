"""Cleaning of extracted text, so that it can be stored, searched and quoted."""

import re

from app.text_normalization import normalize_text

_SPACE_RUN = re.compile(r"[^\S\n]+")
_SPACE_CHARACTER = re.compile(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_SPACE_AROUND_BREAK = re.compile(r" ?\n ?")
# The possessive quantifier and the lookbehind keep the time linear. Without them, long runs of spaces are quadratic.
_TRAILING_SPACES = re.compile(r"(?<![^\S\n])[^\S\n]++$", re.MULTILINE)
_MANY_BREAKS = re.compile(r"\n{3,}")


def clean_text(text: str) -> str:
    """Clean prose of several lines.

    Args:
        text: Extracted text.

    Returns:
        The text in NFC, without control characters, with single spaces, at most one empty line in a row, and no white
        space at its ends.
    """
    text = _SPACE_RUN.sub(" ", normalize_text(text))
    if "\n" in text:
        text = _MANY_BREAKS.sub("\n\n", _SPACE_AROUND_BREAK.sub("\n", text))
    return text.strip()


def clean_line(text: str) -> str:
    """Clean prose and put it on one line.

    Args:
        text: Extracted text.

    Returns:
        The text as ``clean_text`` returns it, with a single space for each run of white space.
    """
    return " ".join(normalize_text(text).split())


def clean_code(text: str) -> str:
    """Clean source code and keep its indentation.

    Args:
        text: Extracted code.

    Returns:
        The code in NFC, without control characters, trailing spaces, and empty lines at its ends. Each space character
        is an ordinary space.
    """
    return _TRAILING_SPACES.sub("", _SPACE_CHARACTER.sub(" ", normalize_text(text))).strip("\n")

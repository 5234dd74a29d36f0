"""Cleaning: extracted characters → text that can be stored, searched and quoted."""

import re

from app.text_normalization import normalize_text

_SPACE_RUN = re.compile(r"[^\S\n]+")
_SPACE_AROUND_BREAK = re.compile(r" ?\n ?")
# Possessive, and only where the run begins: else a long run inside a line costs its square.
_TRAILING_SPACES = re.compile(r"(?<![^\S\n])[^\S\n]++$", re.MULTILINE)
_MANY_BREAKS = re.compile(r"\n{3,}")


def clean_text(text: str) -> str:
    """Prose: ``normalize_text``, runs of spaces become one, at most one empty line, nothing around the ends."""
    text = _SPACE_RUN.sub(" ", normalize_text(text))
    if "\n" in text:
        text = _MANY_BREAKS.sub("\n\n", _SPACE_AROUND_BREAK.sub("\n", text))
    return text.strip()


def clean_line(text: str) -> str:
    """Prose on one line: ``clean_text`` with every white space a single space."""
    return " ".join(normalize_text(text).split())


def clean_code(text: str) -> str:
    """Code: ``normalize_text`` with the indentation kept; no trailing spaces, no empty lines around it."""
    return _TRAILING_SPACES.sub("", normalize_text(text)).strip("\n")

"""Cleaning: extracted characters → text that can be stored, searched and quoted."""

import re
import unicodedata

_LINE_BREAKS = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff]"
)
# Joiners carry meaning in Arabic, Indic scripts and emoji; beside a Latin letter they only break a word for the index.
_LATIN_JOINERS = re.compile("(?<=[\\x00-\\u024f])[\\u200c\\u200d]+|[\\u200c\\u200d]+(?=[\\x00-\\u024f])")
_SURROGATES = re.compile("[\\ud800-\\udfff]")
_SPACES = re.compile(r"[^\S\n]+")
_SPACE_AROUND_BREAK = re.compile(r" ?\n ?")
# Possessive, and only where the run begins: else a long run inside a line costs its square.
_TRAILING = re.compile(r"(?<![^\S\n])[^\S\n]++$", re.MULTILINE)
_MANY_BREAKS = re.compile(r"\n{3,}")


def normalize_characters(text: str) -> str:
    """NFKC, ``\\n`` as the only line break, no control, zero-width or direction characters, U+FFFD for lone surrogates.

    Spaces and tabs stay as they are.
    """
    if text.isprintable():  # nothing that the patterns look for is; they take far longer than this question
        return text if text.isascii() else unicodedata.normalize("NFKC", text)
    if text.isascii():
        return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    text = _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    if "\u200c" in text or "\u200d" in text:
        text = _LATIN_JOINERS.sub("", text)
    return unicodedata.normalize("NFKC", _SURROGATES.sub("\ufffd", text))


def clean_text(text: str) -> str:
    """Prose: ``normalize_characters``, runs of spaces become one, at most one empty line, nothing around the ends."""
    text = _SPACES.sub(" ", normalize_characters(text))
    if "\n" in text:
        text = _MANY_BREAKS.sub("\n\n", _SPACE_AROUND_BREAK.sub("\n", text))
    return text.strip()


def clean_line(text: str) -> str:
    """Prose on one line: ``clean_text`` with every white space a single space."""
    return " ".join(normalize_characters(text).split())


def clean_code(text: str) -> str:
    """Code: ``normalize_characters`` with the indentation kept; no trailing spaces, no empty lines around it."""
    return _TRAILING.sub("", normalize_characters(text)).strip("\n")

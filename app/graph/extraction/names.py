"""Normalized names: the words by which two mentions are the same entity."""

import re
import unicodedata
from functools import lru_cache

from app.graph.extraction.types import MAX_NAME_CHARACTERS
from app.text_normalization import fold_text

LETTER = (
    r"\w\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff\u0e01-\u0e3a\u0e40-\u0e4e"
    r"\u0e81-\u0ece\u0f18-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3"
)
"""Characters of words, for a character class. ``\\w`` has no vowel signs of Indic and South-East Asian scripts."""

MAX_NORMALIZED_CHARACTERS = 4 * MAX_NAME_CHARACTERS
"""Number of characters of a name that are read."""

MAX_CACHED_NAMES = 16_384
"""Number of names whose normalized form is cached in a process."""

_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bb\u02bc\uff07\u00b4\u2032", "'"))
_POSSESSIVE = re.compile(rf"(?<=[{LETTER}])'s(?![{LETTER}])")
_AMPERSAND = re.compile(r"(?<=\s)&(?=\s)")
_DISAMBIGUATION = re.compile(r"(?<=\S)\s{0,9}\([^()]{0,200}\)\s{0,9}\Z")
# Signs belong to the word in C++ and C#.
_WORD = re.compile(rf"[{LETTER}]+(?:\+\+|\#(?![{LETTER}]))?")
# Letters with dots, with or without spaces: U.S.A., J. R. R.
_INITIALS = re.compile(rf"(?<![{LETTER}.])[^\W\d_](?:\.[^\W\d_](?![{LETTER}])|\.[ ][^\W\d_](?=\.))+\.?")
_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "đ": "d"})
_FOLDED_MARKS = re.compile(r"(?<=[a-z\u0131\u03b1-\u03c9])[\u0300-\u036f]+")
_ARTICLES = frozenset({"the", "a", "an"})


def split_words(text: str) -> list[str]:
    """Return the words of a text in the form of normalized names.

    The words are casefolded and in NFKC. Accents of Latin and Greek letters, a possessive s and punctuation are left
    out. Initials are one word. An ampersand between spaces is the word "and".

    Args:
        text: Name or question.
    """
    folded = fold_text(text).casefold().translate(_APOSTROPHES)
    if not folded.isascii():
        marked = _FOLDED_MARKS.sub("", unicodedata.normalize("NFKD", fold_text(folded)))
        folded = unicodedata.normalize("NFC", fold_text(marked)).translate(_LETTERS)
    if "'" in folded:
        folded = _POSSESSIVE.sub("", folded)
    if "." in folded:
        folded = _INITIALS.sub(_join_initials, folded)
    if "&" in folded:
        folded = _AMPERSAND.sub("and", folded)
    return _WORD.findall(folded)


def _join_initials(match: re.Match[str]) -> str:
    return match[0].replace(".", "").replace(" ", "") + " "


def normalize_name(name: str) -> str:
    """Return the normalized form of a name, which is equal for all spellings that count as one entity.

    A final parenthesis and English articles at the beginning are left out, if other words remain.
    ``split_words`` describes the words.

    Args:
        name: Name of an entity. Characters behind ``MAX_NORMALIZED_CHARACTERS`` are ignored.

    Returns:
        The words, joined by spaces, at most ``MAX_NAME_CHARACTERS`` long. It is empty if the name has no words.
    """
    return _normalize(name[:MAX_NORMALIZED_CHARACTERS])


@lru_cache(maxsize=MAX_CACHED_NAMES)
def _normalize(name: str) -> str:
    if name.rstrip().endswith((")", "\uff09")):
        folded = fold_text(name)
        name = _DISAMBIGUATION.sub("", folded) or folded
    words = split_words(name)
    first = 0
    while first < len(words) - 1 and words[first] in _ARTICLES:
        first += 1
    return " ".join(words[first:])[:MAX_NAME_CHARACTERS].rstrip()

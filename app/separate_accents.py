"""Composition of accents that are separate characters with their letters, as TeX and some PDF files write them."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

MARKS_BY_ACCENT = {
    "\u00a8": "\u0308", "\u00af": "\u0304", "\u00b4": "\u0301", "\u00b8": "\u0327", "\u02c6": "\u0302",
    "\u02c7": "\u030c", "\u02ca": "\u0301", "\u02cb": "\u0300", "\u02d8": "\u0306", "\u02d9": "\u0307",
    "\u02da": "\u030a", "\u02db": "\u0328", "\u02dc": "\u0303", "\u02dd": "\u030b", "\u0060": "\u0300",
    "^": "\u0302", "~": "\u0303",
}  # fmt: skip
"""Combining mark of each accent that has a separate character."""

# Letters that languages write with each mark. Unicode composes more pairs, which would turn "Mu¨tter" into "Muẗter".
_LETTERS_BY_MARK = {
    "\u0300": "aeiouAEIOU", "\u0301": "aeiouycnszAEIOUYCNSZ", "\u0302": "aeiouwyAEIOUWY", "\u0303": "anoiuANOIU",
    "\u0304": "aeiouAEIOU", "\u0306": "aegiouAEGIOU", "\u0307": "cegzCEGIZ", "\u0308": "aeiouyAEIOUY",
    "\u030a": "auAU", "\u030b": "ouOU", "\u030c": "cdenrstzCDENRSTZ", "\u0327": "csCS", "\u0328": "aeiuAEIU",
}  # fmt: skip
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
_SEPARATE = frozenset("\u00a8\u00af\u00b4\u00b8\u02c6\u02c7\u02d8\u02d9\u02da\u02db\u02dc\u02dd")
_MARKS = frozenset(_LETTERS_BY_MARK)
_ACUTE = "\u00b4"
# NFKC turns a separate accent into a space and a combining mark, so texts from other programs have that form too.
_ACCENT_CLASS = r"[\u00a8\u00af\u00b4\u00b8\u02c6\u02c7\u02d8-\u02dd]"
_MARK_CLASS = r"[\u0300-\u0304\u0306-\u0308\u030a-\u030c\u0327\u0328]"
_ACCENT = re.compile(
    rf"(?<!{_ACCENT_CLASS})(?<![\u0300-\u036f])( ?)({_ACCENT_CLASS}|(?:[^\S\n]|(?<![^\n])){_MARK_CLASS})"
    r"((?![\u02b0-\u02ff])[^\W\d_]|)"
)
# An accent that may close a quotation: it follows a word, and no letter follows it.
_CLOSING_ACCENT = re.compile(rf"(?<=\S){_ACCENT_CLASS}(?![^\W\d_])")
_MAX_STEM = 12
_QUOTATION_CHARACTERS = 200
# Words after which a space in front of an accent separates two words. After other letters it is the accent's own.
_WHOLE_WORDS = frozenset({
    "a", "à", "al", "als", "am", "an", "and", "as", "at", "au", "auch", "auf", "aus", "aux", "by", "ce", "ces",
    "cet", "cette", "con", "da", "dans", "das", "de", "del", "dem", "den", "der", "des", "di", "die", "do", "dos",
    "du", "e", "ein", "eine", "einem", "einen", "einer", "eines", "el", "en", "est", "et", "fue", "für", "ha", "il",
    "ils", "im", "in", "is", "ist", "it", "la", "las", "le", "les", "los", "más", "mit", "nach", "no", "nos", "nur",
    "o", "of", "on", "ont", "ou", "os", "où", "para", "par", "pas", "plus", "por", "pour", "qu", "que", "qui", "sa",
    "se", "sehr", "ses", "sind", "son", "sont", "sur", "the", "to", "très", "tu", "um", "un", "una", "und", "une",
    "uno", "van", "vom", "von", "vos", "war", "was", "wir", "y", "zu", "zum", "zur",
})  # fmt: skip
# Letters before an acute that writers use as an apostrophe: l´eau, dell´acqua, Qur´an.
_ELIDED = frozenset({
    "all", "aujourd", "bell", "buon", "ciascun", "coll", "com", "cos", "dall", "dell", "dov", "gl", "jusqu",
    "lorsqu", "mezz", "nell", "nessun", "presqu", "puisqu", "qu", "quell", "quelqu", "quest", "qur", "quoiqu",
    "sant", "sull", "tutt", "un",
})  # fmt: skip

# First letters of names that no language elides: P´erez, but L´eau.
_INITIALS = frozenset("BFGHKPQRVWXZ")


def compose_accents(text: str) -> str:
    """Compose the accents of a text in NFC that are separate characters with their letters.

    "K¨uttler", "K ¨uttler" and "Mu¨ller" become "Küttler" and "Müller". An acute that may be an apostrophe or a
    quotation mark stays. Accents without a letter stay too. The time is linear in the length of the text.

    Args:
        text: Text in NFC. A long run of combining marks takes quadratic time.

    Returns:
        The text in NFC.
    """
    # Each test reads the text in a hundredth of the time of an expression.
    if not any(accent in text for accent in _SEPARATE) and not any(mark in text for mark in _MARKS):
        return text
    closing_positions: dict[str, list[int]] = {}
    for match in _CLOSING_ACCENT.finditer(text):
        closing_positions.setdefault(match[0], []).append(match.start())
    composed = _ACCENT.sub(partial(_compose_match, closing_positions=closing_positions), text)
    return unicodedata.normalize("NFC", composed)


def find_mark(accent: str, letter: str) -> str | None:
    """Return the combining mark of an accent if languages write the letter with it, else None."""
    mark = MARKS_BY_ACCENT.get(accent, accent)
    return mark if _DOTLESS.get(letter, letter) in _LETTERS_BY_MARK.get(mark, "") else None


def compose_letter(letter: str, mark: str) -> str:
    """Return a letter with a combining mark. A dotless letter gets its dotted form, which loses its dot."""
    return unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + mark)


def _compose_match(match: re.Match[str], closing_positions: Mapping[str, Sequence[int]]) -> str:
    space, accent, letter = match[1], match[2][-1], match[3]
    mark = MARKS_BY_ACCENT.get(accent, accent)
    stem = _find_stem(match.string, match.start())
    is_quotation = (space or not stem) and _has_position(closing_positions.get(accent, ()), match.end())
    if letter and find_mark(accent, letter) and not is_quotation and (accent != _ACUTE or _is_accent(match, stem)):
        has_same_case = letter.islower() or (stem.isupper() and match.string[match.end() : match.end() + 1].isupper())
        is_inside = stem and has_same_case and stem.lower() not in _WHOLE_WORDS
        return (space if not is_inside else "") + compose_letter(letter, mark)
    # An accent behind its letter, inside a word. The acute is too often an apostrophe: we´re.
    follows_letter = letter and not space and accent != _ACUTE and len(match[2]) == 1 and stem
    return mark + letter if follows_letter and find_mark(accent, stem[-1]) else match[0]


def _is_accent(match: re.Match[str], stem: str) -> bool:
    """Return whether a match of an acute before a letter is an accent, and no apostrophe."""
    space, letter = match[1], match[3]
    if letter not in "aeiouAEIOU\u0131" or match.string[max(0, match.start() - 1) : match.start()].isdigit():
        return False
    if space or not stem:
        return letter.islower() and match.string[match.end() - 1 : match.end() + 1] != "em"
    has_same_case = letter.islower() or stem.isupper()
    return (
        has_same_case
        and (len(stem) > 1 or stem in _INITIALS)
        and stem[-1].lower() not in "aeiou"
        and stem.lower() not in _ELIDED
    )


def _has_position(positions: Sequence[int], start: int) -> bool:
    """Return whether one of the sorted positions is near behind ``start``."""
    index = bisect_left(positions, start)
    return index < len(positions) and positions[index] < start + _QUOTATION_CHARACTERS


def _find_stem(text: str, end: int) -> str:
    """Return the letters directly before ``end``, without accents, at most the last ones of a long word."""
    start = end
    while start > 0 and end - start < _MAX_STEM and (text[start - 1].isalpha() or text[start - 1] in _SEPARATE):
        start -= 1
    letters = [_DOTLESS.get(letter, letter) for letter in text[start:end] if letter not in _SEPARATE]
    return "".join(unicodedata.normalize("NFD", letter)[0] for letter in letters)

"""Folding of a text for the index: forms that readers take for the same word become equal."""

import re
import unicodedata
from functools import lru_cache

from app.text_normalization import fold_stored_text, normalize_text

# A superscript after a digit is a power: 10⁶ is 10^6, and not 106. After a letter, it is a part of the word: m² is m2.
_POWER = re.compile(r"(?<=\d)[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u207b]+")
_LETTER_POWER = re.compile(r"(?<=[^\W\d_])\^(?=\d)")
_FRACTION = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])")
# A superscript after a longer word is the mark of a note.
_NOTE_MARK = re.compile(r"(?<=[^\W\d_]{4})(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079])")
_DEGREE = re.compile(r"\u00ba(?=[CF]\b)")
_ACCENT_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[\u00b4\u02bb\u02bc\u2018\u2032\uff07](?=[^\W\d_])")
# Characters that these patterns replace. Most texts have none of them.
_SPECIAL = re.compile(
    "[\u00b2-\u00b4\u00b9\u00ba\u00bc-\u00be\u02bb\u02bc\u200c\u200d\u2018\u2032\u2070\u2074-\u207b\u2150-\u215e\uff07]"
)
_OTHER_DIGITS = re.compile(r"[^\D0-9]")
# Joiners change the shape of letters in Indic scripts, and no word.
_INDIC_JOINERS = re.compile("(?<=[\u0900-\u0dff])[\u200c\u200d]+")
_JOINED_DIGITS = str.maketrans({"\u066b": ".", "\u066c": ","})


def fold_for_index(text: str) -> str:
    """Return a text in the form that documents and queries are split into words.

    Args:
        text: Text of a document or a query.
    """
    text = normalize_text(text)
    if not text.isascii():
        if _SPECIAL.search(text):
            text = _POWER.sub(_write_power, text)
            text = _NOTE_MARK.sub(" ", _FRACTION.sub(" ", text))
            text = _ACCENT_APOSTROPHE.sub("'", _DEGREE.sub("\u00b0", text))
            text = _INDIC_JOINERS.sub("", text).replace("\u200d", "")
        text = fold_stored_text(text).replace("\u2010", "-")
        if _OTHER_DIGITS.search(text):
            text = text.translate(_load_digits()).translate(_JOINED_DIGITS)
    return _LETTER_POWER.sub("", text) if "^" in text else text


def _write_power(match: re.Match[str]) -> str:
    return "^" + unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-")


@lru_cache(maxsize=1)
def _load_digits() -> dict[int, str]:
    """Return the ASCII digit of each digit of other scripts."""
    characters = (chr(code) for code in range(0x660, 0x1FBFA))
    return {ord(each): str(unicodedata.decimal(each)) for each in characters if each.isdecimal()}

"""Characters: what a text has of them when it is stored, and a query when it is looked for."""

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


def normalize_characters(text: str) -> str:
    """NFKC, ``\\n`` as the only line break, no control, zero-width or direction characters, U+FFFD for lone surrogates.

    Spaces and tabs stay as they are.
    """
    # Nothing else that the patterns look for is printable; they take far longer than this question.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text if text.isascii() else unicodedata.normalize("NFKC", text)
    if text.isascii():
        return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    text = _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    if "\u200c" in text or "\u200d" in text:
        text = _LATIN_JOINERS.sub("", text)
    return unicodedata.normalize("NFKC", _SURROGATES.sub("\ufffd", text))

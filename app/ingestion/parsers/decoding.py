"""Bytes of a text format → characters: byte order marks, declared encodings, UTF-8, then statistics."""

import codecs
import re
from dataclasses import dataclass, field

from charset_normalizer import from_bytes

SAMPLE = 64 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MULTIBYTE = frozenset({"cp932", "shift_jis", "euc_jp", "gb18030", "gb2312", "gbk", "big5", "cp949", "euc_kr"})
_WESTERN = "cp1252"
_CYRILLIC = ("cp1251", "koi8-r", "cp866", "iso8859-5")
_CYRILLIC_WORD = re.compile("[А-Яа-яёЁ]{2,}")
_COMMON_WESTERN = frozenset("äöüßÄÖÜéèêëàâçîïôûùœæáíóúñ¿¡ãõåøÅØÉÀÇ’‘“”„–—…€£©®°§«»´·½²³\u00a0")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text, the Python name of the encoding, and sentences for the document's owner."""

    text: str
    encoding: str
    warnings: list[str] = field(default_factory=list)


def decode(data: bytes, *, encoding: str | None, declared: str | None = None) -> Decoded:
    """A byte order mark wins, then ``encoding`` (the uploader's word), UTF-16 without a mark, ``declared`` (the
    document's own word), UTF-8, and what the statistics of the bytes suggest.

    Never fails: what cannot be decoded becomes U+FFFD, and a warning says so.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _replacing(data[len(mark) :], name)
    warnings = []
    if encoding is not None:
        if _is_encoding(encoding):
            return _replacing(data, encoding)
        warnings.append(f"The encoding {encoding[:40]!r} is not known; it was detected instead.")
    for candidate in (_unmarked_utf16(data), declared, "utf-8"):
        if candidate is not None and _is_encoding(candidate):
            try:
                return Decoded(data.decode(candidate), candidate, warnings)
            except UnicodeError:
                continue
    guessed = _replacing(data, _guess(data))
    return Decoded(guessed.text, guessed.encoding, [*warnings, *guessed.warnings])


def _is_encoding(name: str) -> bool:
    try:
        b"a".decode(name, "replace")
    except (LookupError, ValueError):  # unknown, not of text, or one that refuses everything
        return False
    return True


def _replacing(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding).removeprefix("\ufeff"), encoding)
    except UnicodeError:
        text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return Decoded(text, encoding, [f"Some characters are not valid {encoding} and were replaced."])


def _unmarked_utf16(data: bytes) -> str | None:
    """Latin text in UTF-16 has a NUL in every second byte, and nearly none in the others."""
    sample = data[: SAMPLE & ~1]
    half = len(sample) // 2
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if half and odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if half and even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return None


def _guess(data: bytes) -> str:
    sample = data[:SAMPLE]
    for name in _CYRILLIC:
        if _reads_as_cyrillic(sample, name):
            return name
    best = from_bytes(sample).best()
    name = best.encoding if best is not None else _WESTERN
    # In short texts the statistics cannot tell the Latin code pages apart; the most common one wins where it fits.
    if name not in _MULTIBYTE and _reads_as_western(sample):
        return _WESTERN
    return name


def _reads_as_cyrillic(sample: bytes, encoding: str) -> bool:
    """In the wrong one of these the letters turn into signs, or capitals stand inside words."""
    text = sample.decode(encoding, "replace")
    foreign = [character for character in text if character > "\x7f"]
    letters = sum("а" <= character.lower() <= "я" or character in "ёЁ" for character in foreign)
    words = _CYRILLIC_WORD.findall(text)
    odd = sum(not (word[1:].islower() or word.isupper()) for word in words)
    return letters > 0.9 * len(foreign) and len(words) >= 3 and odd < 0.1 * len(words)


def _reads_as_western(sample: bytes) -> bool:
    try:
        text = sample.decode(_WESTERN)
    except UnicodeError:
        return False
    foreign = [character for character in text if character > "\x7f"]
    return len(foreign) < 0.3 * len(text) and all(character in _COMMON_WESTERN for character in foreign)

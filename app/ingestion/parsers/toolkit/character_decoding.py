"""Decoding of text files, with detection of the encoding."""

import codecs
import re
from dataclasses import dataclass, field

from charset_normalizer import from_bytes

from app.warnings import ServiceWarning, WarningCode

SAMPLE_BYTES = 64 * 1024
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MULTIBYTE_ENCODINGS = frozenset(
    {"cp932", "shift_jis", "euc_jp", "gb18030", "gb2312", "gbk", "big5", "cp949", "euc_kr"}
)
_WESTERN_ENCODING = "cp1252"
_CYRILLIC_ENCODINGS = ("cp1251", "koi8-r", "cp866", "iso8859-5")
_CYRILLIC_WORD = re.compile("[А-Яа-яёЁ]{2,}")
_COMMON_WESTERN = frozenset("äöüßÄÖÜéèêëàâçîïôûùœæáíóúñ¿¡ãõåøÅØÉÀÇ’‘“”„–—…€£©®°§«»´·½²³\u00a0")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Decoded text of a file.

    Attributes:
        text: The text.
        encoding: Python's name of the encoding.
        warnings: Warnings for the owner of the document.
    """

    text: str
    encoding: str
    warnings: list[ServiceWarning] = field(default_factory=list)


def decode_text(data: bytes, *, encoding: str | None, declared_encoding: str | None = None) -> DecodedText:
    """Decode the bytes of a text file.

    The function uses the first of these encodings that applies:

    1. the encoding of a byte order mark
    2. ``encoding``
    3. UTF-16, if every second byte is NUL
    4. ``declared_encoding``
    5. UTF-8
    6. the encoding that charset-normalizer detects from the frequency of characters

    Args:
        data: Bytes of the file.
        encoding: Encoding as the uploader declared it; None if the uploader declared none.
        declared_encoding: Encoding as the file declares it; None if the file declares none.

    Returns:
        The decoded text. Bytes that cannot be decoded become U+FFFD, and a warning says so.
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decode_with_replacement(data[len(mark) :], name)
    warnings = []
    if encoding is not None:
        if _is_encoding(encoding):
            return _decode_with_replacement(data, encoding)
        message = f"The encoding {encoding[:40]!r} is unknown, so the encoding was detected."
        warnings.append(ServiceWarning(WarningCode.ENCODING_UNKNOWN, message))
    for candidate in (_detect_unmarked_utf16(data), declared_encoding, "utf-8"):
        if candidate is not None and _is_encoding(candidate):
            try:
                return DecodedText(data.decode(candidate), candidate, warnings)
            except UnicodeError:
                continue
    guessed = _decode_with_replacement(data, _detect_encoding(data))
    return DecodedText(guessed.text, guessed.encoding, [*warnings, *guessed.warnings])


def _is_encoding(name: str) -> bool:
    try:
        b"a".decode(name, "replace")
    except (LookupError, ValueError):  # the codec is unknown, is not for text, or cannot decode
        return False
    return True


def _decode_with_replacement(data: bytes, encoding: str) -> DecodedText:
    try:
        return DecodedText(data.decode(encoding).removeprefix("\ufeff"), encoding)
    except UnicodeError:
        text = data.decode(encoding, "replace").removeprefix("\ufeff")
    message = f"Some characters are not valid {encoding} and were replaced."
    return DecodedText(text, encoding, [ServiceWarning(WarningCode.CHARACTERS_REPLACED, message)])


def _detect_unmarked_utf16(data: bytes) -> str | None:
    """Return the encoding of Latin text in UTF-16 without a byte order mark; None if the data is something else.

    Such text has a NUL in nearly every second byte, and almost none in the other bytes.
    """
    sample = data[: SAMPLE_BYTES & ~1]
    half = len(sample) // 2
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if half and odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if half and even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    return None


def _detect_encoding(data: bytes) -> str:
    sample = data[:SAMPLE_BYTES]
    for name in _CYRILLIC_ENCODINGS:
        if _is_cyrillic(sample, name):
            return name
    best = from_bytes(sample).best()
    name = best.encoding if best is not None else _WESTERN_ENCODING
    # Short texts do not suffice to distinguish the Latin code pages, so the most common one is used if it fits.
    if name not in _MULTIBYTE_ENCODINGS and _is_western(sample):
        return _WESTERN_ENCODING
    return name


def _is_cyrillic(sample: bytes, encoding: str) -> bool:
    """Return whether bytes are Cyrillic text in an encoding.

    In a wrong Cyrillic encoding, letters become symbols, or words have capital letters inside.
    """
    text = sample.decode(encoding, "replace")
    foreign = [character for character in text if character > "\x7f"]
    letters = sum("а" <= character.lower() <= "я" or character in "ёЁ" for character in foreign)
    words = _CYRILLIC_WORD.findall(text)
    odd = sum(not (word[1:].islower() or word.isupper()) for word in words)
    return letters > 0.9 * len(foreign) and len(words) >= 3 and odd < 0.1 * len(words)


def _is_western(sample: bytes) -> bool:
    try:
        text = sample.decode(_WESTERN_ENCODING)
    except UnicodeError:
        return False
    foreign = [character for character in text if character > "\x7f"]
    return len(foreign) < 0.3 * len(text) and all(character in _COMMON_WESTERN for character in foreign)

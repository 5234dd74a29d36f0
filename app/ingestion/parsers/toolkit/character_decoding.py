"""Decoding of text files, with detection of the encoding."""

import codecs
import re
from dataclasses import dataclass, field

from app.documents.upload.wide_text import has_control_bytes, list_wide_encodings
from app.ingestion.parsers.toolkit.encoding_ranking import RankedEncoding, rank_encodings, rank_wide_encodings
from app.warnings import ServiceWarning, WarningCode

SAMPLE_BYTES = 64 * 1024
MAX_DAMAGED_SHARE = 0.05
"""Highest share of damaged characters among those beyond ASCII with which an encoding is still trusted."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Escape sequences that only these encodings contain. All of their bytes are ASCII.
_ESCAPES = (
    (b"\x1b$)C", "iso2022_kr"),
    (b"\x1b$B", "iso2022_jp_2"),
    (b"\x1b$@", "iso2022_jp_2"),
    (b"\x1b$(D", "iso2022_jp_2"),
)
# Programs write these larger encodings and declare the smaller ones (WHATWG Encoding Standard, section 4.2).
_LARGER_ENCODINGS = {
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "johab": "cp949",
    "big5": "big5hkscs",
}  # fmt: skip
_WINDOWS_NAME = re.compile(r"cp(125\d|874)")
_FAMILIAR_NAMES = {
    "cp932": "Shift JIS", "cp949": "EUC-KR", "cp950": "Big5", "big5hkscs": "Big5", "gb18030": "GB18030",
    "euc_jp": "EUC-JP",
}  # fmt: skip


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
    3. UTF-16 or UTF-32, if the bytes have NULs as Latin text has them
    4. ``declared_encoding``, unless many characters are invalid in it
    5. an encoding of Japanese or Korean with escape sequences
    6. UTF-8, unless many characters are invalid in it
    7. the encoding that fits the frequencies of letters best, with a warning that it is a guess

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
    certain = _detect_certain_encoding(data, declared_encoding)
    decoded = _decode_with_replacement(data, certain) if certain else _decode_with_guess(data)
    return DecodedText(decoded.text, decoded.encoding, [*warnings, *decoded.warnings])


def _detect_certain_encoding(data: bytes, declared_encoding: str | None) -> str | None:
    """Return the encoding that the bytes or the file itself declare; None if it must be guessed."""
    latin = _detect_unmarked_latin(data)
    if latin:
        return latin
    if declared_encoding is not None and _is_encoding(declared_encoding):
        name = _choose_larger_encoding(data, declared_encoding)
        if _is_nearly_valid(data, name):
            return name
    sample = data[:SAMPLE_BYTES]
    if b"\x1b$" in sample and data.isascii():
        return next((name for escape, name in _ESCAPES if escape in sample), "utf-8")
    has_wide_text = has_control_bytes(data) and list_wide_encodings(data)
    return "utf-8" if not has_wide_text and _is_nearly_valid(data, "utf-8") else None


def _is_encoding(name: str) -> bool:
    try:
        b"a".decode(name, "replace")
    except (LookupError, ValueError):  # the codec is unknown, is not for text, or cannot decode
        return False
    return True


def _choose_larger_encoding(data: bytes, declared: str) -> str:
    """Return the declared encoding, or the larger one that contains it if the data is invalid in the declared one."""
    larger = _LARGER_ENCODINGS.get(codecs.lookup(declared).name)
    if larger is None:
        return declared
    try:
        text = data.decode(declared)
    except UnicodeError:
        return larger
    return larger if any("\x80" <= character <= "\x9f" for character in set(text)) else declared


def _is_nearly_valid(data: bytes, encoding: str) -> bool:
    """Return whether at most a twentieth of the characters beyond ASCII are invalid in an encoding."""
    try:
        data.decode(encoding)
    except UnicodeError:
        text = data.decode(encoding, "replace")
    else:
        return True
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    return text.count("\ufffd") <= MAX_DAMAGED_SHARE * foreign


def _decode_with_replacement(data: bytes, encoding: str) -> DecodedText:
    try:
        return DecodedText(data.decode(encoding).removeprefix("\ufeff"), encoding)
    except UnicodeError:
        text = data.decode(encoding, "replace").removeprefix("\ufeff")
    message = f"Some characters are not valid {encoding} and were replaced."
    return DecodedText(text, encoding, [ServiceWarning(WarningCode.CHARACTERS_REPLACED, message)])


def _detect_unmarked_latin(data: bytes) -> str | None:
    """Return the encoding of Latin text in UTF-16 or UTF-32 without a byte order mark; None if it is something else.

    Such text has a NUL in nearly every second byte, or in three of four bytes.
    """
    sample = data[: SAMPLE_BYTES & ~3]
    half = len(sample) // 2
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if half and odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    if half and even > 0.4 * half and odd < 0.05 * half:
        return "utf-16-be"
    quarter = len(sample) // 4
    zeros = [sample[start::4].count(0) for start in range(4)]
    if quarter and zeros[3] == zeros[2] == quarter and zeros[0] < 0.05 * quarter:
        return "utf-32-le"
    if quarter and zeros[0] == zeros[1] == quarter and zeros[3] < 0.05 * quarter:
        return "utf-32-be"
    return None


def _decode_with_guess(data: bytes) -> DecodedText:
    sample = data[:SAMPLE_BYTES]
    wide = list_wide_encodings(sample)
    best = rank_wide_encodings(sample, wide)[0] if wide else rank_encodings(sample)[0]
    decoded = _decode_with_replacement(data, best.name)
    return DecodedText(decoded.text, decoded.encoding, [_create_guess_warning(best), *decoded.warnings])


def _create_guess_warning(best: RankedEncoding) -> ServiceWarning:
    name = _FAMILIAR_NAMES.get(best.name) or _WINDOWS_NAME.sub(r"windows-\1", best.name).replace("iso8859", "iso-8859")
    message = f"The encoding is a guess: {name} (confidence {best.confidence} %). Set `encoding` if the text is wrong."
    return ServiceWarning(WarningCode.ENCODING_GUESSED, message)

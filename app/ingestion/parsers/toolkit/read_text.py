"""Reading of a text file, with a check that it is text."""

import re
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.base64_blobs import remove_base64_blobs
from app.ingestion.parsers.toolkit.character_decoding import DecodedText, decode_text
from app.ingestion.types import CorruptFile
from app.warnings import ServiceWarning, WarningCode

MIN_PRINTABLE_SHARE = 0.93
"""Minimum share of printable characters in a text.

A tenth of random bytes are control characters in any 8-bit encoding. Text contains almost none.
"""

NUL_CHARACTERS_REMOVED = ServiceWarning(WarningCode.NUL_CHARACTERS_REMOVED, "NUL characters were removed.")
_LINE_BREAK = re.compile(r"\r\n?|[\f\x85\u2028\u2029]")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")


def read_text(path: Path, options: ParseOptions) -> DecodedText:
    """Read a text file.

    Args:
        path: File to read.
        options: Options of the parser call, with the encoding.

    Returns:
        The decoded text, with ``\\n`` as the only line break. Base64 data is left out, and a warning counts it.

    Raises:
        CorruptFile: The file is binary.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    text, warnings = _LINE_BREAK.sub("\n", decoded.text), list(decoded.warnings)
    if text and len(_UNPRINTABLE.sub("", text)) < MIN_PRINTABLE_SHARE * len(text):
        raise CorruptFile("The file is binary, not text.")
    without_blobs = remove_base64_blobs(text)
    text = without_blobs.text
    warnings += without_blobs.list_warnings()
    if "\0" in text:
        warnings.append(NUL_CHARACTERS_REMOVED)
    return DecodedText(text, decoded.encoding, warnings)

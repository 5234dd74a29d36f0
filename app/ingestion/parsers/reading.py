"""The bytes of a text format as characters, once it is sure that they are text."""

import re
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.decoding import Decoded, decode
from app.ingestion.types import Corrupt

MIN_PRINTABLE = 0.93
"""Random bytes read as any 8-bit encoding have a tenth of control characters; text has next to none."""

_LINE_BREAK = re.compile(r"\r\n?|[\f\x85\u2028\u2029]")
_NOT_PRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")


def read_text(path: Path, options: ParseOptions) -> Decoded:
    """The file's characters with ``\\n`` as the only line break. Raises Corrupt for a binary file."""
    decoded = decode(path.read_bytes(), encoding=options.encoding)
    text, warnings = _LINE_BREAK.sub("\n", decoded.text), list(decoded.warnings)
    if text and len(_NOT_PRINTABLE.sub("", text)) < MIN_PRINTABLE * len(text):
        raise Corrupt("The file is not text.")
    if "\0" in text:
        warnings.append("NUL characters were removed.")
    return Decoded(text, decoded.encoding, warnings)

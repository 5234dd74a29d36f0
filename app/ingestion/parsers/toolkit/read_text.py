"""Reading of a text file, with a check that it is text."""

import re
from collections.abc import Callable
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.base64_blobs import Substitute, remove_base64_blobs
from app.ingestion.parsers.toolkit.character_decoding import DecodedText, decode_text
from app.ingestion.parsers.toolkit.source_alignment import SourceText
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
    """Read a text file, as ``read_source_text`` does, without the positions of its characters.

    Args:
        path: File to read.
        options: Options of the parser call, with the encoding.

    Returns:
        The text with its encoding, and warnings about it.
    """
    return _read_decoded(path, options, lambda _: re.sub)


def read_source_text(path: Path, options: ParseOptions) -> tuple[DecodedText, SourceText]:
    """Read a text file.

    Args:
        path: File to read.
        options: Options of the parser call, with the encoding.

    Returns:
        The decoded text, with ``\\n`` as the only line break, and the positions of its characters in the file. Base64
        data is left out, and a warning counts it.

    Raises:
        CorruptFile: The file is binary.
    """
    sources: list[SourceText] = []

    def create_substitute(text: str) -> Substitute:
        sources.append(SourceText.from_text(text))
        return sources[0].replace_matches

    decoded = _read_decoded(path, options, create_substitute)
    return decoded, sources[0]


def _read_decoded(path: Path, options: ParseOptions, create_substitute: Callable[[str], Substitute]) -> DecodedText:
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    substitute = create_substitute(decoded.text)
    text, warnings = substitute(_LINE_BREAK, lambda _: "\n", decoded.text), list(decoded.warnings)
    if text and len(_UNPRINTABLE.sub("", text)) < MIN_PRINTABLE_SHARE * len(text):
        raise CorruptFile("The file is binary, not text.")
    without_blobs = remove_base64_blobs(text, substitute)
    text = without_blobs.text
    warnings += without_blobs.list_warnings()
    if "\0" in text:
        warnings.append(NUL_CHARACTERS_REMOVED)
    return DecodedText(text, decoded.encoding, warnings)

"""Headers of mails: encoded words (RFC 2047), also those that are cut inside a character, and dates."""

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import groupby

from app.ingestion.parsers.toolkit.character_decoding import decode_text

_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_QUOTED_BYTE = re.compile(rb"=([0-9A-Fa-f]{2})")


def decode_encoded_words(value: str) -> str:
    """Return a header with its encoded words decoded.

    Neighbouring words in one charset are decoded together, because many programs cut them inside a character. White
    space between two encoded words is no part of the text.

    Args:
        value: The header on one line.
    """
    if "=?" not in value:
        return value
    shown: list[str] = []
    for charset, run in groupby(_iter_pieces(value), key=lambda piece: piece[0]):
        if charset is None:
            shown += [data.decode("utf-8", "surrogateescape") for _, data in run]
        else:
            shown.append(decode_text(b"".join(data for _, data in run), encoding=None, declared_encoding=charset).text)
    return "".join(shown)


def _iter_pieces(value: str) -> Iterator[tuple[str | None, bytes]]:
    """Yield the encoded words with their charset and bytes, and the text between them without a charset."""
    position = 0
    for match in _ENCODED_WORD.finditer(value):
        between = value[position : match.start()]
        if between.strip() or (between and position == 0):
            yield None, between.encode("utf-8", "surrogateescape")
        # A language may follow the charset (RFC 2231, section 5).
        yield match[1].partition("*")[0].lower(), _decode_word(match[2], match[3])
        position = match.end()
    yield None, value[position:].encode("utf-8", "surrogateescape")


def _decode_word(encoding: str, text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    if encoding in "qQ":
        return _QUOTED_BYTE.sub(lambda match: bytes([int(match[1], 16)]), raw.replace(b"_", b" "))
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4))
    except (ValueError, binascii.Error):
        return raw

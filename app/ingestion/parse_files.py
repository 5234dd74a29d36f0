"""Files of parse results: the reply of a parser process, compressed, behind a line about the bytes and the parse."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.ingestion.parsers.sandbox.protocol import (
    ResponseDecoder,
    compute_max_line_bytes,
    encode_document,
    encode_message,
)
from app.ingestion.types import ParsedDocument, ParserCrashed

COMPRESSION_LEVEL = 1
"""Fastest level: images and most of the text are read once, if ever."""

MAX_SOURCE_LINE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ParseSource:
    """Digest of the parsed bytes, and the identity of the parse."""

    sha256: bytes
    identity: bytes


def write_parse_file(path: Path, parsed: ParsedDocument, source: ParseSource, *, max_bytes: int) -> bool:
    """Write a parse result. Equal results are equal files. The call blocks.

    Args:
        path: File to write.
        parsed: Result of the parser.
        source: The parsed bytes and the parse.
        max_bytes: Maximum size of the file.

    Returns:
        False if the file would be larger; its content is then not complete.
    """
    with path.open("wb") as target:
        for piece in _compress_lines(parsed, source):
            if target.tell() + len(piece) > max_bytes:
                return False
            target.write(piece)
    return True


def read_parse_file(path: Path, source: ParseSource, *, max_characters: int) -> ParsedDocument | None:
    """Read a parse result. The call blocks.

    Args:
        path: File of ``write_parse_file``.
        source: The parsed bytes and the parse.
        max_characters: Maximum number of characters of text.

    Returns:
        The result of the parser; None if the file is damaged or has the result of other bytes or of another parse.
    """
    try:
        with gzip.open(path, "rb") as file:
            return _decode_lines(file, source, max_characters)
    except (OSError, EOFError, zlib.error, ParserCrashed):
        return None


def _compress_lines(parsed: ParsedDocument, source: ParseSource) -> Iterator[bytes]:
    compressor = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)  # the header has no time
    yield compressor.compress(_encode_source(source))
    for line in encode_document(parsed, resident_mb=0):
        yield compressor.compress(line)
    yield compressor.flush()


def _decode_lines(file: gzip.GzipFile, source: ParseSource, max_characters: int) -> ParsedDocument | None:
    if file.readline(MAX_SOURCE_LINE_BYTES) != _encode_source(source):
        return None
    decoder = ResponseDecoder(max_characters=max_characters)
    limit = compute_max_line_bytes(max_characters)
    while line := file.readline(limit):
        if decoder.feed_line(line):
            return None if file.read(1) else decoder.document
    return None


def _encode_source(source: ParseSource) -> bytes:
    return encode_message({"sha256": source.sha256.hex(), "identity": source.identity.hex()})

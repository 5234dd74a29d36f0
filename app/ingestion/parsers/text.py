"""Plain text: decoded, cut into paragraphs at empty lines."""

import re
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.decoding import decode
from app.ingestion.types import BlockKind, Corrupt, ParsedDocument

MIN_PRINTABLE = 0.93
"""Random bytes read as any 8-bit encoding have a tenth of control characters; text has next to none."""

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
_LINE_BREAK = re.compile(r"\r\n?|[\f\x85\u2028\u2029]")
_NOT_PRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Paragraphs keep their line breaks. Raises Corrupt for a binary file, TooMuchText."""
    decoded = decode(path.read_bytes(), encoding=options.encoding)
    blocks, warnings = BlockList(options), list(decoded.warnings)
    text = _LINE_BREAK.sub("\n", decoded.text)
    if text and len(_NOT_PRINTABLE.sub("", text)) < MIN_PRINTABLE * len(text):
        raise Corrupt("The file is not text.")
    if "\0" in text:
        warnings.append("NUL characters were removed.")
    for paragraph in _PARAGRAPH_BREAK.split(text):
        blocks.add(BlockKind.PARAGRAPH, paragraph)
    return ParsedDocument(blocks.blocks, warnings=warnings)

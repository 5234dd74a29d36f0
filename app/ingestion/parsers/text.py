"""Plain text: decoded, cut into paragraphs at empty lines."""

import re
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.reading import read_text
from app.ingestion.types import BlockKind, ParsedDocument

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Paragraphs keep their line breaks. Raises Corrupt for a binary file, TooMuchText."""
    decoded, blocks = read_text(path, options), BlockList(options)
    for paragraph in _PARAGRAPH_BREAK.split(decoded.text):
        blocks.add(BlockKind.PARAGRAPH, paragraph)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)

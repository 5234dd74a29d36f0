"""Parser of plain text: empty lines separate paragraphs, and a title between equals signs is a heading."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.types import BlockKind, ParsedDocument

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
# The headings of MediaWiki and many plain texts: "== Title ==", also with spaces between the signs.
_HEADING = re.compile(r"(=(?:[ \t]?=){0,9})[ \t]*([^\s=](?:.*[^\s=])?)[ \t]*\1")
_MAX_HEADING_CHARACTERS = 200


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a text file. Paragraphs keep their line breaks.

    Raises CorruptFile if the file is binary, TextTooLong if it has more characters than the limit allows.
    """
    decoded, blocks = read_text(path, options), BlockList(options)
    for paragraph in _PARAGRAPH_BREAK.split(decoded.text):
        for text, level in _split_headings(paragraph):
            blocks.add(BlockKind.HEADING if level else BlockKind.PARAGRAPH, text, level=level)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _split_headings(paragraph: str) -> Iterator[tuple[str, int]]:
    """Yield the headings of a paragraph with their levels, and the text between them with level 0."""
    if "=" not in paragraph:
        yield paragraph, 0
        return
    lines: list[str] = []
    for line in paragraph.split("\n"):
        heading = _HEADING.fullmatch(line.strip()) if len(line) <= _MAX_HEADING_CHARACTERS else None
        if heading is None:
            lines.append(line)
            continue
        yield "\n".join(lines), 0
        yield heading[2], min(heading[1].count("="), 6)
        lines = []
    yield "\n".join(lines), 0

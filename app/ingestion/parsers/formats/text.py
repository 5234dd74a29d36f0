"""Parser of plain text: empty lines separate paragraphs, and a title between equals signs is a heading."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_source_text
from app.ingestion.parsers.toolkit.source_alignment import locate_copy
from app.ingestion.types import BlockKind, ParsedDocument

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
# The headings of MediaWiki and many plain texts: "== Title ==", also with spaces between the signs.
_HEADING = re.compile(r"(=(?:[ \t]?=){0,9})[ \t]*([^\s=](?:.*[^\s=])?)[ \t]*\1")
_MAX_HEADING_CHARACTERS = 200


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a text file. Paragraphs keep their line breaks.

    Raises CorruptFile if the file is binary, TextTooLong if it has more characters than the limit allows.
    """
    (decoded, source), blocks = read_source_text(path, options), BlockList(options)
    blocks.number_lines(source.source)
    for start, end in _list_paragraphs(decoded.text):
        for first, last, level in _split_headings(decoded.text, start, end):
            locate = partial(locate_copy, source=source, start=first, end=last)
            kind, text = BlockKind.HEADING if level else BlockKind.PARAGRAPH, decoded.text[first:last]
            blocks.add(kind, text, level=level, locate=locate)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _list_paragraphs(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for separator in _PARAGRAPH_BREAK.finditer(text):
        yield start, separator.start()
        start = separator.end()
    yield start, len(text)


def _split_headings(text: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of the headings of a paragraph with their levels, and of the text between them with level 0."""
    if text.find("=", start, end) < 0:
        yield start, end, 0
        return
    first = line_start = start
    for line in text[start:end].split("\n"):
        heading = _HEADING.fullmatch(line.strip()) if len(line) <= _MAX_HEADING_CHARACTERS else None
        if heading is not None:
            indentation = line_start + len(line) - len(line.lstrip())
            yield first, line_start, 0
            yield indentation + heading.start(2), indentation + heading.end(2), min(heading[1].count("="), 6)
            first = line_start + len(line) + 1
        line_start += len(line) + 1
    yield min(first, end), end, 0

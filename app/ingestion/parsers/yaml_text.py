"""YAML as it is written: code, cut at documents and at keys of the top level that have something below them."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.reading import read_text
from app.ingestion.types import BlockKind, ParsedDocument

_LINE = re.compile(r"[^\n]++")
_INSIDE = (" ", "\t", "#", "]", "}")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Nothing is resolved: no anchors, no tags. Raises Corrupt for a binary file, TooMuchText."""
    decoded = read_text(path, options)
    blocks = BlockList(options)
    for piece in _pieces(decoded.text):
        blocks.add(BlockKind.CODE, piece)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _pieces(text: str) -> Iterator[str]:
    """A comment belongs to what comes after it; simple keys, and simple items, that follow each other stay together."""
    begin, comment = 0, -1
    nested = listed = False
    for line in _LINE.finditer(text):
        first = line[0][0]
        if first == "#":
            comment = line.start() if comment < 0 else comment
            continue
        item = line[0].startswith(("- ", "-\t")) or line[0] == "-"
        key = not item and first not in _INSIDE
        if line[0].startswith("---") or (item and nested) or (key and (nested or listed)):
            start = line.start() if comment < 0 else comment
            yield text[begin:start]
            begin, nested, listed = start, False, False
        nested = nested or first in _INSIDE
        listed = listed or item
        comment = -1
    yield text[begin:]

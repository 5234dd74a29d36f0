"""Parser of YAML files: the text becomes code blocks, split at documents and at top-level keys with nested content."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.types import BlockKind, ParsedDocument

_LINE = re.compile(r"[^\n]++")
_NESTED_PREFIXES = (" ", "\t", "#", "]", "}")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a YAML file without resolving anchors or tags.

    Raises CorruptFile if the file is binary, TextTooLong if it has more characters than the limit allows.
    """
    decoded = read_text(path, options)
    blocks = BlockList(options)
    for piece in _iter_pieces(decoded.text):
        blocks.add(BlockKind.CODE, piece)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _iter_pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text.

    Consecutive keys without nested content are one piece, and so are list items without nested content. A comment
    belongs to the piece after it.
    """
    begin, comment = 0, -1
    has_nested = has_items = False
    for line in _LINE.finditer(text):
        first = line[0][0]
        if first == "#":
            comment = line.start() if comment < 0 else comment
            continue
        item = line[0].startswith(("- ", "-\t")) or line[0] == "-"
        key = not item and first not in _NESTED_PREFIXES
        if line[0].startswith("---") or (item and has_nested) or (key and (has_nested or has_items)):
            start = line.start() if comment < 0 else comment
            yield text[begin:start]
            begin, has_nested, has_items = start, False, False
        has_nested = has_nested or first in _NESTED_PREFIXES
        has_items = has_items or item
        comment = -1
    yield text[begin:]

"""Source code of any language: blocks of code cut between definitions, by empty lines and indentation alone."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.types import BlockKind, ParsedDocument

MAX_BLOCK_CHARACTERS = 2000
"""Characters; a longer definition is cut again between its parts, such as a class between its methods."""

MAX_DEPTH = 4
_GAP = re.compile(r"\n(?:[^\S\n]*+\n)++(?=[^\S\n]*+\S)")
_INDENTATION = re.compile(r"[^\S\n]*+")
# The end of what came before is no beginning.
_CLOSING_LINE = re.compile(r"[^\S\n]*+(?:[)\]}]|(?:end|else|elif|except|finally|fi|done|esac)\b)", re.IGNORECASE)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Nothing is interpreted, so that every name stays as it is. Raises CorruptFile for a binary file, TextTooLong."""
    decoded = read_text(path, options)
    blocks = BlockList(options)
    for piece in _iter_definitions(decoded.text.rstrip()):
        blocks.add(BlockKind.CODE, piece)
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _iter_definitions(text: str) -> Iterator[str]:
    """The text in pieces, cut at empty lines where the outermost indentation begins anew."""
    waiting = [(text, 0)]
    while waiting:
        piece, depth = waiting.pop()
        parts = (
            _split_text(piece, depth)
            if depth == 0 or (len(piece) > MAX_BLOCK_CHARACTERS and depth < MAX_DEPTH)
            else [piece]
        )
        if depth and len(parts) == 1:
            yield piece
        else:
            waiting.extend((part, depth + 1) for part in reversed(parts))


def _split_text(text: str, depth: int) -> list[str]:
    gaps = [(gap.start(), gap.end(), _measure_indentation(text, gap.end())) for gap in _GAP.finditer(text)]
    gaps = [gap for gap in gaps if not _CLOSING_LINE.match(text, gap[1])]
    outermost = min((width for _, _, width in gaps), default=0) if depth else 0
    parts, position = [], 0
    for start, end, width in gaps:
        if width <= outermost:
            parts.append(text[position:start])
            position = end
    return [*parts, text[position:]]


def _measure_indentation(text: str, position: int) -> int:
    indentation = _INDENTATION.match(text, position)
    return len(indentation[0].expandtabs(4)) if indentation else 0

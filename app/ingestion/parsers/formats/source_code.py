"""Parser of source code in any language: it splits code between definitions, by empty lines and indentation."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.places import locate_code_lines
from app.ingestion.parsers.toolkit.read_text import read_text
from app.ingestion.types import BlockKind, ParsedDocument

MAX_BLOCK_CHARACTERS = 2000
"""Length from which a definition is split between its parts, such as a class between its methods."""

MAX_DEPTH = 4
_GAP = re.compile(r"\n(?:[^\S\n]*+\n)++(?=[^\S\n]*+\S)")
_INDENTATION = re.compile(r"[^\S\n]*+")
# A line that closes or continues the previous block does not begin a definition.
_CLOSING_LINE = re.compile(r"[^\S\n]*+(?:[)\]}]|(?:end|else|elif|except|finally|fi|done|esac)\b)", re.IGNORECASE)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a source file into code blocks. Names and comments do not change.

    Raises CorruptFile if the file is binary, TextTooLong if it has more characters than the limit allows.
    """
    decoded = read_text(path, options)
    blocks = BlockList(options)
    position, line = 0, 1
    for piece in _iter_definitions(decoded.text.rstrip()):
        start = decoded.text.index(piece, position)
        line += decoded.text.count("\n", position, start)
        blank_lines = piece[: len(piece) - len(piece.lstrip())].count("\n")
        blocks.add(BlockKind.CODE, piece, locate_places=partial(locate_code_lines, first=line + blank_lines))
        position, line = start + len(piece), line + piece.count("\n")
    return ParsedDocument(blocks.blocks, warnings=decoded.warnings)


def _iter_definitions(text: str) -> Iterator[str]:
    """Yield the pieces of a text, which is split at empty lines that precede a line with the outermost indentation."""
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

"""What service and parser child say to each other: JSON lines, never pickle, and nothing believed unchecked.

The service sends one ``Setup``, the child answers ``ready``; then, for every request line, the child answers any number
of ``pages`` lines (how many are read, of how many), any number of ``blocks`` lines, ``picture`` lines, and one ``done``
or ``failed`` line. Blocks and pictures travel in small lines so that the service's event loop never decodes a whole
book at once.
"""

import json
from array import array
from collections.abc import Iterator
from typing import Any

from app.ingestion.parsers.blocks import SEPARATOR
from app.ingestion.parsers.picture_lines import PictureReader, picture_pieces
from app.ingestion.types import (
    MAX_NODES,
    Block,
    BlockKind,
    Corrupt,
    Encrypted,
    IngestionError,
    NoText,
    ParsedDocument,
    ParserCrashed,
    ParserMemory,
    PrintedLines,
    TooManyNodes,
    TooManyPages,
    TooMuchText,
    UnsupportedFormat,
)

BATCH_CHARACTERS = 32 * 1024
MAX_WARNINGS = 50
MAX_SENTENCE = 2000
MAX_TITLE = 20_000
"""Characters of a title on its way; the document tree keeps fewer of them as the title."""

MAX_BLOCK_LINES = 10_000
MAX_LINES = 1_000_000
"""Printed lines that have a place, of a block and of a document."""

MAX_SIDE = 10_000_000
"""Of a page, in tenths of a point: PDF's own limit is 5 metres, in units that a page may enlarge."""

_BYTES_PER_LINE = 64
_OVERHEAD = 64 * 1024 + (MAX_BLOCK_LINES + BATCH_CHARACTERS // 6) * _BYTES_PER_LINE
_BYTES_PER_CHARACTER = 6

_KINDS = {kind.value: kind for kind in BlockKind}
_ERRORS: dict[str, type[IngestionError]] = {
    kind.__name__: kind
    for kind in (Corrupt, Encrypted, NoText, ParserMemory, TooManyNodes, TooManyPages, TooMuchText, UnsupportedFormat)
}


def line_limit(max_characters: int) -> int:
    """The longest line in bytes that an honest child sends: one block of all the characters, each of them escaped."""
    return max_characters * _BYTES_PER_CHARACTER + _OVERHEAD


def encode(message: dict[str, Any]) -> bytes:
    """One line. ASCII only, so that paths that are not valid UTF-8 survive."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def encode_document(document: ParsedDocument, *, resident_mb: int) -> Iterator[bytes]:
    """The lines of a successful answer."""
    batch: list[list[Any]] = []
    characters = 0
    for block in document.blocks:
        fields = [block.kind.value, block.text, block.level, block.page, block.slide, block.sheet]
        batch.append([*fields, block.picture, _places(block.printed)])
        characters += len(block.text) + BATCH_CHARACTERS // 1024
        characters += 0 if block.printed is None else len(block.printed.lines)
        if characters >= BATCH_CHARACTERS:
            yield _encode_blocks(batch)
            batch, characters = [], 0
    yield _encode_blocks(batch)
    yield from (encode({"picture": piece}) for piece in picture_pieces(document.pictures))
    done = {"title": document.title and document.title[:MAX_TITLE], "page_count": document.page_count}
    warnings = [warning[:MAX_SENTENCE] for warning in document.warnings[:MAX_WARNINGS]]
    yield encode({"done": {**done, "warnings": warnings}, "resident_mb": resident_mb})


def _places(printed: PrintedLines | None) -> list[int] | None:
    return None if printed is None else [printed.width, printed.height, *printed.lines]


def _encode_blocks(batch: list[list[Any]]) -> bytes:
    text = json.dumps({"blocks": batch}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def encode_error(error: IngestionError, *, resident_mb: int) -> bytes:
    """The line of a failed answer; the error goes by the name of its class."""
    failed = {"error": type(error).__name__, "message": error.message[:MAX_SENTENCE]}
    return encode({"failed": failed, "resident_mb": resident_mb})


class Answer:
    """Puts an answer together line by line. Raises ParserCrashed for anything that an honest child would not send."""

    def __init__(self, *, max_characters: int) -> None:
        self.resident_mb = 0
        self.pages: tuple[int, int] | None = None
        self.error: IngestionError | None = None
        self.document: ParsedDocument | None = None
        self._blocks: list[Block] = []
        self._pictures = PictureReader()
        self._left = max_characters
        self._nodes_left = MAX_NODES
        self._lines_left = MAX_LINES

    def feed(self, line: bytes) -> bool:
        """Take one line; True when the answer is complete: ``document`` or ``error`` is set."""
        try:
            return self._feed(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as exc:
            raise ParserCrashed("The parser process gave an answer that is not valid.") from exc

    def _feed(self, message: Any) -> bool:
        if "pages" in message:
            done, total = message["pages"]
            self.pages = _count(done) or 0, _count(total) or 0
            return False
        if "blocks" in message:
            self._blocks.extend(self._block(fields) for fields in message["blocks"])
            return False
        if "picture" in message:
            self._pictures.feed(message["picture"])
            return False
        self.resident_mb = _count(message["resident_mb"], at_least=0) or 0
        if "failed" in message:
            failed = message["failed"]
            self.error = _ERRORS[failed["error"]](_sentence(failed["message"]))
        else:
            self.document = self._done(message["done"])
        return True

    def _block(self, fields: Any) -> Block:
        name, text, level, page, slide, sheet, picture, places = fields
        kind = _KINDS[name]
        if not _text(text) or "\0" in text or not 0 <= level <= 9:
            raise ValueError(kind)
        self._left -= len(text) + SEPARATOR
        if self._left < 0:
            raise ValueError("more text than allowed")
        if (kind is BlockKind.PICTURE) != (picture is not None):
            raise ValueError(kind)
        printed = None if places is None else self._printed(places, characters=len(text))
        shown = _count(picture, at_least=0)
        block = Block(kind, text, int(level), _count(page), _count(slide), _count(sheet), shown, printed)
        self._nodes_left -= block.nodes
        if self._nodes_left < 0:
            raise ValueError("more blocks than allowed")
        return block

    def _printed(self, places: Any, *, characters: int) -> PrintedLines:
        """Lines one behind the other in the text, and boxes that lie on the page."""
        lines = array("i", places)
        width, height = lines[:2]
        del lines[:2]
        self._lines_left -= len(lines) // 6
        if not 6 <= len(lines) <= 6 * MAX_BLOCK_LINES or self._lines_left < 0:
            raise ValueError("not so many lines")
        if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE:
            raise ValueError("not a page's size")
        position, numbers = 0, iter(lines)
        for start, end, x0, y0, x1, y1 in zip(*[numbers] * 6, strict=True):
            if not position <= start < end <= characters or not 0 <= x0 < x1 <= width or not 0 <= y0 < y1 <= height:
                raise ValueError("a line that is nowhere")
            position = end
        return PrintedLines(width, height, lines)

    def _done(self, done: Any) -> ParsedDocument:
        title = None if done["title"] is None else _sentence(done["title"])
        warnings = [_sentence(warning) for warning in done["warnings"][:MAX_WARNINGS]]
        pictures = self._pictures.pictures()
        if any(block.picture is not None and block.picture >= len(pictures) for block in self._blocks):
            raise ValueError("a picture that is not there")
        return ParsedDocument(
            self._blocks,
            title=title,
            page_count=_count(done["page_count"]),
            warnings=warnings,
            pictures=pictures,
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError: it could never be stored
    return value


def _sentence(value: Any) -> str:
    """A title, a warning or an error, which may quote the document; without U+0000, which cannot be stored."""
    return _text(value).replace("\0", "")


def _count(value: Any, *, at_least: int = 1) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not at_least <= value < 1 << 31:
        raise ValueError("not a count")
    return value

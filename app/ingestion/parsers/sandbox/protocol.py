"""Messages between the service and a parser process: lines of JSON, each of which the service validates.

The format is not pickle, because a malicious file may control the parser process. The service sends the setup once, and
the process answers ``ready``. The process answers each request with these lines, in this order:

- any number of ``pages`` lines: the number of pages read, and the number of all pages
- any number of ``blocks`` lines
- any number of ``image`` lines, each with a piece of an image
- one ``done`` or ``failed`` line

Blocks and images are sent in small lines, so that decoding a large document does not block the service's event loop.
"""

import json
from array import array
from collections.abc import Iterator
from typing import Any

from app.documents.source_map import MAX_BLOCK_SEGMENTS, SourceMap
from app.ingestion.parsers.toolkit.blocks import SEPARATOR_CHARACTERS
from app.ingestion.parsers.toolkit.image_transport import ImageAssembler, iter_image_pieces
from app.ingestion.types import (
    MAX_NODES,
    Block,
    BlockKind,
    CorruptFile,
    EncryptedFile,
    IngestionError,
    LineLayout,
    NoTextFound,
    ParsedDocument,
    ParserCrashed,
    ParserOutOfMemory,
    TextTooLong,
    TooManyNodes,
    TooManyPages,
    UnsupportedFormat,
)
from app.warnings import ServiceWarning, is_warning_code, normalize_warning

BATCH_CHARACTERS = 32 * 1024
MAX_WARNINGS = 50
MAX_SENTENCE_CHARACTERS = 2000
MAX_TITLE_CHARACTERS = 20_000
"""Maximum length of a title in a reply. The document tree shortens the title further."""

MAX_BLOCK_LINES = 10_000
MAX_LINES = 1_000_000
"""Maximum number of printed lines with positions, in a block and in a document."""

MAX_PAGE_SIDE = 10_000_000
"""Maximum width and height of a page in tenths of a point.

PDF limits a page to 5 metres, but a page can enlarge the unit of its lengths.
"""

_BYTES_PER_LINE = _BYTES_PER_SEGMENT = 64
_LIST_BYTES = MAX_BLOCK_LINES * _BYTES_PER_LINE + MAX_BLOCK_SEGMENTS * _BYTES_PER_SEGMENT
_OVERHEAD_BYTES = 64 * 1024 + _LIST_BYTES + BATCH_CHARACTERS // 4 * _BYTES_PER_LINE
_BYTES_PER_CHARACTER = 6

_KINDS = {kind.value: kind for kind in BlockKind}
_ERRORS: dict[str, type[IngestionError]] = {
    kind.__name__: kind
    for kind in (
        CorruptFile,
        EncryptedFile,
        NoTextFound,
        ParserOutOfMemory,
        TooManyNodes,
        TooManyPages,
        TextTooLong,
        UnsupportedFormat,
    )
}


def compute_max_line_bytes(max_characters: int) -> int:
    """Return the maximum length of a reply line in bytes: one block with ``max_characters`` escaped characters."""
    return max_characters * _BYTES_PER_CHARACTER + _OVERHEAD_BYTES


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message as one line of ASCII, which can represent paths that are not valid UTF-8."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def encode_document(document: ParsedDocument, *, resident_mb: int) -> Iterator[bytes]:
    """Encode the reply to a successful request.

    Args:
        document: Result of the parser.
        resident_mb: Resident memory of the parser process in MiB.

    Yields:
        The lines of the reply, which the ``done`` line ends.
    """
    batch: list[list[Any]] = []
    characters = 0
    for block in document.blocks:
        fields = [block.kind.value, block.text, block.level, block.page, block.slide, block.sheet]
        maps = [[] if item is None else list(item.numbers) for item in (block.source_map, block.place_map)]
        while maps and not maps[-1]:
            maps.pop()
        batch.append([*fields, block.image_index, _encode_layout(block.line_layout), *maps])
        characters += sum(map(len, maps))
        characters += len(block.text) + BATCH_CHARACTERS // 1024
        characters += 0 if block.line_layout is None else len(block.line_layout.lines)
        if characters >= BATCH_CHARACTERS:
            yield _encode_blocks(batch)
            batch, characters = [], 0
    yield _encode_blocks(batch)
    yield from (encode_message({"image": piece}) for piece in iter_image_pieces(document.images))
    done = {"title": document.title and document.title[:MAX_TITLE_CHARACTERS], "page_count": document.page_count}
    done["words_left_out"] = document.words_left_out
    warnings = [_encode_warning(normalize_warning(warning)) for warning in document.warnings[:MAX_WARNINGS]]
    yield encode_message({"done": {**done, "warnings": warnings}, "resident_mb": resident_mb})


def _encode_warning(warning: ServiceWarning) -> list[Any]:
    return [warning.code, warning.message[:MAX_SENTENCE_CHARACTERS], warning.count]


def _encode_layout(line_layout: LineLayout | None) -> list[int] | None:
    return None if line_layout is None else [line_layout.width, line_layout.height, *line_layout.lines]


def _encode_blocks(batch: list[list[Any]]) -> bytes:
    text = json.dumps({"blocks": batch}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def encode_error(error: IngestionError, *, resident_mb: int) -> bytes:
    """Encode the reply to a failed request: the name of the error's class, and its message."""
    failed = {"error": type(error).__name__, "message": error.message[:MAX_SENTENCE_CHARACTERS]}
    return encode_message({"failed": failed, "resident_mb": resident_mb})


class ResponseDecoder:
    """Decoder that reads and validates the reply to one request, line by line."""

    def __init__(self, *, max_characters: int) -> None:
        self.resident_mb = 0
        self.progress: tuple[int, int] | None = None
        self.error: IngestionError | None = None
        self.document: ParsedDocument | None = None
        self._blocks: list[Block] = []
        self._images = ImageAssembler()
        self._remaining_characters = max_characters
        self._remaining_nodes = MAX_NODES
        self._remaining_lines = MAX_LINES

    def feed_line(self, line: bytes) -> bool:
        """Decode one line of the reply.

        Args:
            line: Line of JSON, without its newline.

        Returns:
            Whether the reply is complete. Then ``document`` or ``error`` is set.

        Raises:
            ParserCrashed: The line is not valid.
        """
        try:
            return self._decode_message(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as exc:
            raise ParserCrashed("The parser process sent an invalid reply; the file may be damaged.") from exc

    def _decode_message(self, message: Any) -> bool:
        if "pages" in message:
            done, total = message["pages"]
            self.progress = _check_count(done) or 0, _check_count(total) or 0
            return False
        if "blocks" in message:
            self._blocks.extend(self._decode_block(fields) for fields in message["blocks"])
            return False
        if "image" in message:
            self._images.add_piece(message["image"])
            return False
        self.resident_mb = _check_count(message["resident_mb"], min_value=0) or 0
        if "failed" in message:
            failed = message["failed"]
            self.error = _ERRORS[failed["error"]](_clean_sentence(failed["message"]))
        else:
            self.document = self._decode_document(message["done"])
        return True

    def _decode_block(self, fields: Any) -> Block:
        name, text, level, page, slide, sheet, image, line_boxes, *maps = fields
        kind = _KINDS[name]
        if not _check_text(text) or "\0" in text or not 0 <= level <= 9:
            raise ValueError(kind)
        self._remaining_characters -= len(text) + SEPARATOR_CHARACTERS
        if self._remaining_characters < 0:
            raise ValueError("more text than allowed")
        if (kind is BlockKind.IMAGE) != (image is not None):
            raise ValueError(kind)
        line_layout = None if line_boxes is None else self._decode_layout(line_boxes, characters=len(text))
        image_index = _check_count(image, min_value=0)
        block = Block(
            kind,
            text,
            int(level),
            _check_count(page),
            _check_count(slide),
            _check_count(sheet),
            image_index,
            line_layout,
            *_decode_maps(*maps, characters=len(text)),
        )
        self._remaining_nodes -= block.node_count
        if self._remaining_nodes < 0:
            raise ValueError("more blocks than allowed")
        return block

    def _decode_layout(self, line_boxes: Any, *, characters: int) -> LineLayout:
        """Decode the positions of lines; check that lines follow one another and that their boxes are on the page."""
        lines = array("i", line_boxes)
        width, height = lines[:2]
        del lines[:2]
        self._remaining_lines -= len(lines) // 6
        if not 6 <= len(lines) <= 6 * MAX_BLOCK_LINES or self._remaining_lines < 0:
            raise ValueError("no lines, or more lines than allowed")
        if not 0 < width <= MAX_PAGE_SIDE or not 0 < height <= MAX_PAGE_SIDE:
            raise ValueError("invalid size of a page")
        position, numbers = 0, iter(lines)
        for start, end, x0, y0, x1, y1 in zip(*[numbers] * 6, strict=True):
            if not position <= start < end <= characters or not 0 <= x0 < x1 <= width or not 0 <= y0 < y1 <= height:
                raise ValueError("a line outside of the text or the page")
            position = end
        return LineLayout(width, height, lines)

    def _decode_document(self, done: Any) -> ParsedDocument:
        title = None if done["title"] is None else _clean_sentence(done["title"])
        warnings = [_decode_warning(fields) for fields in done["warnings"][:MAX_WARNINGS]]
        images = self._images.build_images()
        if any(block.image_index is not None and block.image_index >= len(images) for block in self._blocks):
            raise ValueError("an image that does not exist")
        return ParsedDocument(
            self._blocks,
            title=title,
            page_count=_check_count(done["page_count"]),
            warnings=warnings,
            images=images,
            words_left_out=_check_count(done["words_left_out"], min_value=0) or 0,
        )


def _decode_maps(source: Any = (), places: Any = (), *, characters: int) -> tuple[SourceMap | None, SourceMap | None]:
    """Decode the positions and the places of a block; a block that has none leaves them out."""
    source_map = _decode_source_map(source, characters=characters) if source else None
    return source_map, _decode_source_map(places, characters=characters) if places else None


def _decode_source_map(source_numbers: Any, *, characters: int) -> SourceMap:
    """Decode the positions of a block; check that segments follow one another and can be stored."""
    source_map = SourceMap(array("i", source_numbers))
    if not 0 < len(source_map.numbers) <= 4 * MAX_BLOCK_SEGMENTS or not source_map.is_valid(characters):
        raise ValueError("positions outside of the text")
    return source_map


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # a lone surrogate, which cannot be stored, raises UnicodeEncodeError, a ValueError
    return value


def _decode_warning(fields: Any) -> ServiceWarning:
    code, message, count = fields
    if not is_warning_code(code):
        raise ValueError("not a warning code")
    return ServiceWarning(code, _clean_sentence(message), _check_count(count, min_value=0))


def _clean_sentence(value: Any) -> str:
    """Return a title, a warning or an error message without U+0000, which cannot be stored."""
    return _check_text(value).replace("\0", "")


def _check_count(value: Any, *, min_value: int = 1) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not min_value <= value < 1 << 31:
        raise ValueError("not a count")
    return value

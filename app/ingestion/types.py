"""The nouns of ingestion: what a parser yields, the document tree, and what a chunker makes of it."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from app.errors import AppError
from app.warnings import ServiceWarning

MAX_NODES = 250_000
"""Nodes of a document tree, whether a parser, a chunker or an archive makes them: each takes memory by itself."""

MAX_CHUNKS = 100_000
"""Chunks of one document: text, vector and words of all of them are in memory until they are stored."""

MAX_PIECES = 1_000_000
"""Sentences, rows, lines and parts of them that a chunker puts together into chunks."""


class BlockKind(StrEnum):
    """What a parser can tell apart."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    CODE = "code"
    NOTE = "note"
    RECORD = "record"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Where lines of a text stand on a page: six numbers a line, its range of the text and its box x0, y0, x1, y1.

    Boxes and the page's size are in tenths of a point, from the top left corner of the page as it is shown. Lines come
    in the order of the text.
    """

    width: int
    height: int
    lines: "array[int]"  # an array can be subscripted by type checkers alone


@dataclass(frozen=True, slots=True)
class Block:
    """One run of text in reading order, already cleaned (NFKC, no NUL, no trailing spaces, never empty).

    ``level`` counts headings from 1 and is 0 for anything else. ``page``, ``slide`` and ``sheet`` count from 1; a
    format without them leaves them None. A block never crosses one of them. Where lines are ``line_layout`` is told
    of PDFs
    alone. A RECORD is a row that says all about its thing, such as a question with its answer: it becomes a chunk of
    its own. So does a PICTURE, whose ``image_index`` is its place among the document's pictures; its text stands in for
    what a model will say of it.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None
    slide: int | None = None
    sheet: int | None = None
    image_index: int | None = None
    line_layout: LineLayout | None = None

    @property
    def node_count(self) -> int:
        """The number of nodes that the block becomes: a heading is a section and its first paragraph."""
        return 2 if self.kind is BlockKind.HEADING else 1


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """A picture of a document, made anew from its pixels: PNG or JPEG, of a size that models look at."""

    media_type: str
    width: int
    height: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parser's whole answer. ``warnings`` are for the document's owner.

    A plain string among the ``warnings`` of a plugin gets the code ``plugin_warning``. ``images`` are there where they
    were asked for; one that no block names is not wanted.
    """

    blocks: list[Block]
    title: str | None = None
    page_count: int | None = None
    warnings: list[ServiceWarning] = field(default_factory=list)
    images: list[EncodedImage] = field(default_factory=list)


class NodeKind(StrEnum):
    """Levels of the document tree.

    Sentences lie in a paragraph, and only where the chunker works with them. A TOPIC is what a chunker keeps together
    of a section's text: it lies over the paragraphs there, as a further child of the section behind all others.
    """

    DOCUMENT = "document"
    SECTION = "section"
    PARAGRAPH = "paragraph"
    SENTENCE = "sentence"
    TOPIC = "topic"


@dataclass(slots=True)
class TreeNode:
    """A node of the document tree; ``start`` and ``end`` are code-point offsets into ``DocumentTree.text``.

    ``path`` is the position from the root (``()`` for the document, ``(0, 2)`` for the third child of its first child):
    it makes the node's id stable. A section's title is its heading's text, which is also its first paragraph node's
    text range, so that the ranges of a section's children cover it.
    """

    kind: NodeKind
    level: int
    start: int
    end: int
    path: tuple[int, ...] = ()
    title: str | None = None
    page: int | None = None
    page_end: int | None = None
    slide: int | None = None
    sheet: int | None = None
    block: BlockKind | None = None
    image_index: int | None = None
    children: list["TreeNode"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DocumentTree:
    """The stored text of a document (blocks joined by a blank line) and the tree over it.

    ``line_layout`` are the lines of each page that has some; ``warnings`` are for the document's owner.
    """

    text: str
    root: TreeNode
    line_layouts: Mapping[int, LineLayout] = field(default_factory=dict)
    warnings: list[ServiceWarning] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """A chunk before it has an id or a vector.

    ``text`` is the raw passage, ``text == tree.text[start:end]``; ``section_titles`` the headings above it, outermost
    first; ``node_path`` the path of its topic where the chunker makes topics, else of the smallest tree node that
    holds it; ``metadata`` what its owner said of it alone.
    """

    text: str
    start: int
    end: int
    section_titles: tuple[str, ...] = ()
    page: int | None = None
    page_end: int | None = None
    slide: int | None = None
    node_path: tuple[int, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class IngestionError(AppError):
    """The document could not be ingested. ``code`` is one of API.md's words for a failed document."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False


class EncryptedFile(IngestionError):
    """The file is encrypted; upload a copy without a password."""

    code = "encrypted"


class CorruptFile(IngestionError):
    """The file is damaged and cannot be read."""

    code = "corrupt"


class UnsupportedFormat(IngestionError):
    """No parser reads this kind of file."""

    code = "unsupported_media_type"


class NoTextFound(IngestionError):
    """The file has no text in it."""

    code = "no_text"


class TextTooLong(IngestionError):
    """The file holds more than the limit allows."""

    code = "too_large"


class ChunkTooLong(IngestionError):
    """A chunk is longer than the embedding model reads."""

    code = "too_large"


class TooManyNodes(TextTooLong):
    """The file holds more headings, paragraphs, rows and sentences than the limit allows."""

    def __init__(self, message: str | None = None, /) -> None:
        default_message = f"The file holds more than {MAX_NODES:,} headings, paragraphs, rows and sentences; split it."
        super().__init__(message or default_message, limit=MAX_NODES)


class TooManyPieces(TextTooLong):
    """The text holds more sentences, rows and lines than the limit allows."""

    def __init__(self) -> None:
        super().__init__(f"The text is cut at more than {MAX_PIECES:,} places; split the file.", limit=MAX_PIECES)


class TooManyChunks(TextTooLong):
    """The document becomes more chunks than the limit allows."""

    def __init__(self) -> None:
        super().__init__(
            f"The document becomes more than {MAX_CHUNKS:,} chunks; split it, or use larger chunks.", limit=MAX_CHUNKS
        )


class TooManyPages(IngestionError):
    """The file has more pages than the limit allows."""

    code = "too_many_pages"


class ParserTimeout(IngestionError):
    """Parsing took longer than the limit allows."""

    code = "parser_timeout"


class ParserOutOfMemory(IngestionError):
    """Parsing needed more memory than the limit allows."""

    code = "parser_memory"


class ParserKilled(ParserOutOfMemory):
    """The parser process was killed from outside, as by a machine without memory; this may not be the file's fault."""

    retryable = True


class ChunkerFailed(IngestionError):
    """The chunker made something that is no chunk."""

    code = "chunker_failed"


class ParserCrashed(IngestionError):
    """The parser process ended unexpectedly on this file."""

    code = "corrupt"

"""Types of ingestion: parsed documents, the document tree, chunk drafts, limits and errors."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from app.documents.provided_graph import NO_PROVIDED_GRAPH, ProvidedGraph
from app.documents.source_map import SourceMap, find_place
from app.errors import AppError
from app.warnings import ServiceWarning

MAX_NODES = 250_000
"""Maximum number of nodes of a document tree, whether a parser, a chunker or an archive creates them."""

MAX_CHUNKS = 100_000
"""Maximum number of chunks of one document: texts, vectors and terms are in memory until the chunks are stored."""

MAX_PIECES = 1_000_000
"""Maximum number of sentences, rows, lines and parts of them that a chunker packs into chunks."""


class BlockKind(StrEnum):
    """Kind of a block of a parsed document.

    A RECORD is a row that makes sense without other rows, such as a question with its answer. Each RECORD and each
    IMAGE becomes a separate chunk.
    """

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
    """Position of the lines of a text on a page.

    All lengths are in tenths of a point, from the top left corner of the page as it is displayed.

    Attributes:
        width: Width of the page.
        height: Height of the page.
        lines: Six numbers for each line, in the order of the text. Start and end are its range of the text; x0, y0,
            x1 and y1 are its box.
    """

    width: int
    height: int
    lines: "array[int]"  # an array can be subscripted by type checkers alone


@dataclass(frozen=True, slots=True)
class Block:
    """Block of text of a parsed document, such as a heading, a paragraph or a table.

    A block never crosses a page, a slide or a sheet.

    Attributes:
        kind: Kind of the block.
        text: Clean text: NFC, without NUL and trailing spaces, not empty. ``BlockList.add`` cleans it. The text of an
            image is a placeholder for the description that a vision model writes.
        level: Level of a heading, from 1; 0 for any other kind.
        page: Page number from 1; None if the format has no pages.
        slide: Slide number from 1; None if the format has no slides.
        sheet: Sheet number from 1; None if the format has no sheets.
        image_index: Index of an image in ``ParsedDocument.images``; None for any other kind.
        line_layout: Position of the lines on the page; PDF files only.
        source_map: Position of the text in the file; None if it is not known.
        place_map: Lines or rows of the file that have the text, in place of characters; None if they are not known.
    """

    kind: BlockKind
    text: str
    level: int = 0
    page: int | None = None
    slide: int | None = None
    sheet: int | None = None
    image_index: int | None = None
    line_layout: LineLayout | None = None
    source_map: SourceMap | None = None
    place_map: SourceMap | None = None

    @property
    def node_count(self) -> int:
        """Number of tree nodes of the block: a heading becomes a section and its first paragraph."""
        return 2 if self.kind is BlockKind.HEADING else 1


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """Image of a document, encoded again from its pixels.

    Attributes:
        media_type: ``image/png`` or ``image/jpeg``.
        width: Width in pixels.
        height: Height in pixels.
        data: Bytes of the file.
    """

    media_type: str
    width: int
    height: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """Result of a parser.

    Attributes:
        blocks: Blocks in reading order.
        title: Title of the document; None if the file has none.
        page_count: Number of pages or slides; None if the format has neither.
        warnings: Warnings for the owner of the document. A plugin may use plain strings; they get the code
            ``plugin_warning``.
        images: Images of the document if ``ParseOptions.needs_images`` is true. A block refers to each image.
        words_left_out: Number of words that a reader sees and that are not in the blocks, such as navigation.
    """

    blocks: list[Block]
    title: str | None = None
    page_count: int | None = None
    warnings: list[ServiceWarning] = field(default_factory=list)
    images: list[EncodedImage] = field(default_factory=list)
    words_left_out: int = 0


class NodeKind(StrEnum):
    """Kind of a node of the document tree.

    A paragraph has sentences as children only if the chunker needs them. A TOPIC is a run of text inside one section
    about one subject. Topics are the last children of their section and overlap its paragraphs.
    """

    DOCUMENT = "document"
    SECTION = "section"
    PARAGRAPH = "paragraph"
    SENTENCE = "sentence"
    TOPIC = "topic"


@dataclass(slots=True)
class TreeNode:
    """Node of the document tree.

    The first child of a section with a heading is a paragraph with the text of the heading.

    Attributes:
        kind: Kind of the node.
        level: Level of a section's heading, from 1; 0 for any other node.
        start: First character, as an offset in code points into ``DocumentTree.text``.
        end: Offset behind the last character.
        path: Position from the root: ``()`` for the document, ``(0, 2)`` for the third child of its first child. The
            node's id depends on the path.
        title: Text of a section's heading; None for any other node.
        page: First page, from 1; None if the format has no pages.
        page_end: Last page.
        slide: Slide number from 1; None if the format has no slides.
        sheet: Sheet number from 1; None if the format has no sheets.
        block: Kind of block of a paragraph node; None for any other node.
        image_index: Index of an image in ``ParsedDocument.images``; None for any other node.
        children: Child nodes in reading order, topics last.
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
    """Stored text of a document with its tree.

    Attributes:
        text: Texts of the blocks, joined by blank lines.
        root: Node of the whole document.
        line_layouts: Position of the lines, by page number.
        warnings: Warnings for the owner of the document.
        source_map: Position of the text in the file; None if no position is known.
        place_map: Lines or rows of the file that have the text; None if none are known.
    """

    text: str
    root: TreeNode
    line_layouts: Mapping[int, LineLayout] = field(default_factory=dict)
    warnings: list[ServiceWarning] = field(default_factory=list)
    source_map: SourceMap | None = None
    place_map: SourceMap | None = None

    def find_source_range(self, start: int, end: int) -> tuple[int | None, int | None]:
        """Return the range of the file that has a part of the text; twice None if it is not known."""
        source_range = None if self.source_map is None else self.source_map.find_range(start, end)
        return (None, None) if source_range is None else source_range

    def find_place(self, start: int, end: int) -> tuple[int | None, int | None]:
        """Return the first and last line or row of the file that has a part of the text; twice None without one."""
        place = find_place(self.place_map, start, end)
        return (None, None) if place is None else place


@dataclass(frozen=True, slots=True)
class ChunkDraft:
    """Chunk of a document without an id and a vector.

    Attributes:
        text: Text of the chunk, equal to ``DocumentTree.text[start:end]``.
        start: First character, as an offset in code points.
        end: Offset behind the last character.
        section_titles: Headings above the chunk, outermost first.
        page: First page, from 1; None if the format has no pages.
        page_end: Last page.
        slide: Slide number from 1; None if the format has no slides.
        node_path: Path of the topic that the chunk belongs to, or of the smallest node that contains the chunk.
        metadata: Metadata of this chunk, in addition to the metadata of the document.
        table_head: Head of the table that the chunk begins in, which the chunk repeats; None for any other chunk.
        ordinal: Index of an uploaded chunk, which stays the same if another chunk of its document is deleted. None
            means the position among the chunks of the document.
        provided_graph: Entities and relations that came with the chunk.
        context_line: Line of a chat model that is embedded and indexed before the text; None without one.
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
    table_head: str | None = None
    ordinal: int | None = None
    provided_graph: ProvidedGraph = NO_PROVIDED_GRAPH
    context_line: str | None = None

    @property
    def content(self) -> str:
        """Text that readers, the embedding model and the index get: the repeated head of a table, and the text."""
        return self.text if self.table_head is None else f"{self.table_head}\n{self.text}"


class IngestionError(AppError):
    """The document cannot be ingested."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False


class EncryptedFile(IngestionError):
    """The file is encrypted; upload a copy without a password."""

    code = "encrypted"


class CorruptFile(IngestionError):
    """The file is damaged and cannot be read."""

    code = "corrupt"


class UnsupportedFormat(IngestionError):
    """No parser reads this kind of file; convert it to a supported format."""

    code = "unsupported_media_type"


class NoTextFound(IngestionError):
    """The file contains no text."""

    code = "no_text"


class TextTooLong(IngestionError):
    """The file contains more than the limit allows; split it."""

    code = "too_large"


class ChunkTooLong(IngestionError):
    """A chunk is longer than the embedding model reads; split it."""

    code = "too_large"


class TooManyNodes(TextTooLong):
    """The file has more headings, paragraphs, rows and sentences than the limit allows; split it."""

    def __init__(self, message: str | None = None, /) -> None:
        default_message = f"The file has more than {MAX_NODES:,} headings, paragraphs, rows and sentences; split it."
        super().__init__(message or default_message, limit=MAX_NODES)


class TooManyPieces(TextTooLong):
    """The text has more sentences, rows and lines than the limit allows; split the file."""

    def __init__(self) -> None:
        super().__init__(
            f"The text has more than {MAX_PIECES:,} sentences, rows and lines; split the file.", limit=MAX_PIECES
        )


class TooManyChunks(TextTooLong):
    """The document has more chunks than the limit allows; split it, or use larger chunks."""

    def __init__(self) -> None:
        super().__init__(
            f"The document has more than {MAX_CHUNKS:,} chunks; split it, or use larger chunks.", limit=MAX_CHUNKS
        )


class TooManyPages(IngestionError):
    """The file has more pages than the limit allows; split it."""

    code = "too_many_pages"


class ParserTimeout(IngestionError):
    """Parsing took longer than the limit allows; split the file."""

    code = "parser_timeout"


class ParserOutOfMemory(IngestionError):
    """Parsing needed more memory than the limit allows; split the file."""

    code = "parser_memory"


class ParserKilled(ParserOutOfMemory):
    """The parser process was killed from outside, for example because the machine has no memory left; try again."""

    retryable = True


class ChunkerFailed(IngestionError):
    """The chunker failed or returned an invalid chunk; choose another chunker."""

    code = "chunker_failed"


class ParserCrashed(IngestionError):
    """The parser process crashed on this file; it may be damaged."""

    code = "corrupt"

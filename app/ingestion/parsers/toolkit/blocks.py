"""Collection of the blocks of a document under the limits of characters, nodes and pages."""

from collections.abc import Callable, Sequence

from app.documents.source_map import MAX_BLOCK_SEGMENTS, MAX_SEGMENTS, SourceMap, SourceSegment
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.places import LineNumbers
from app.ingestion.parsers.toolkit.source_alignment import limit_segments
from app.ingestion.parsers.toolkit.text_cleanup import clean_code, clean_line, clean_text
from app.ingestion.types import MAX_NODES, Block, BlockKind, TextTooLong, TooManyNodes, TooManyPages

SEPARATOR_CHARACTERS = 2
"""Number of characters between two blocks in the stored text. They count towards the character limit."""

_CLEANERS = {BlockKind.HEADING: clean_line, BlockKind.CODE: clean_code}


def check_page_count(page_count: int, options: ParseOptions) -> None:
    """Check the number of pages against the limit.

    Args:
        page_count: Number of pages or slides of the document.
        options: Options of the parser call, with the limit.

    Raises:
        TooManyPages: The document has more pages than ``options.max_pages``.
    """
    if page_count > options.max_pages:
        raise TooManyPages(
            f"The file has {page_count} pages, and the limit is {options.max_pages}; split it.", limit=options.max_pages
        )


class BlockList:
    """List of the blocks of one document, in reading order, that enforces the limits.

    Attributes:
        blocks: The blocks collected so far, for ``ParsedDocument``.
    """

    def __init__(self, options: ParseOptions) -> None:
        self.blocks: list[Block] = []
        self._nodes = 1
        self._max_characters = options.max_characters
        self._characters = 0
        self._segments = 0
        self._lines: LineNumbers | None = None

    def number_lines(self, source: str) -> None:
        """Number the lines of a file, so that blocks with positions get their lines.

        Args:
            source: Decoded text of the file.
        """
        self._lines = LineNumbers(source)

    def add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        page: int | None = None,
        slide: int | None = None,
        sheet: int | None = None,
        locate: Callable[[str], Sequence[SourceSegment]] | None = None,
        locate_places: Callable[[str], Sequence[SourceSegment]] | None = None,
    ) -> None:
        """Clean a text and append it as a block. An empty text is left out.

        Args:
            kind: Kind of the block. Headings are cleaned to one line; the indentation of code is preserved.
            text: Text of the block.
            level: Level of a heading, from 1.
            page: Page number from 1.
            slide: Slide number from 1.
            sheet: Sheet number from 1.
            locate: Function that returns the positions of the clean text in the file; None if they are not known.
            locate_places: Function that returns the lines or rows of the clean text; None to number the lines of
                the positions.

        Raises:
            TextTooLong: The document has more characters or nodes than the limits allow.
        """
        text = _CLEANERS.get(kind, clean_text)(text)
        if text:
            segments = None if locate is None else locate(text)
            places = None if locate_places is None else locate_places(text)
            if segments is not None and self._lines is not None:
                places = self._lines.locate(segments)
            source_map = self._build_source_map(segments) if segments else None
            place_map = self._build_source_map(places) if places else None
            self.append(Block(kind, text, level, page, slide, sheet, source_map=source_map, place_map=place_map))

    def _build_source_map(self, segments: Sequence[SourceSegment]) -> SourceMap:
        """Return the positions of a block. Above the limits, neighbours share a position."""
        limit = max(1, min(MAX_BLOCK_SEGMENTS, MAX_SEGMENTS - self._segments))
        limited = limit_segments(segments, limit)
        self._segments += len(limited)
        return SourceMap.from_segments(limited)

    def append(self, block: Block) -> None:
        """Append a block whose text is already clean and not empty.

        Args:
            block: The block.

        Raises:
            TextTooLong: The document has more characters or nodes than the limits allow.
        """
        self.count_characters(len(block.text) + SEPARATOR_CHARACTERS)
        self._nodes += block.node_count
        if self._nodes > MAX_NODES:
            raise TooManyNodes
        self.blocks.append(block)

    def count_characters(self, characters: int) -> None:
        """Count characters towards the limit without adding a block.

        Args:
            characters: Number of characters.

        Raises:
            TextTooLong: The document has more characters than the limit allows.
        """
        self._characters += characters
        if self._characters > self._max_characters:
            raise TextTooLong(
                f"The file has more than {self._max_characters} characters of text; split it.",
                limit=self._max_characters,
            )

    def find_first_heading(self, *, level: int | None = None) -> str | None:
        """Find the first heading.

        Args:
            level: Level of the heading; None for any level.

        Returns:
            The text of the heading; None if there is no such heading.
        """
        headings = (block for block in self.blocks if block.kind is BlockKind.HEADING)
        return next((block.text for block in headings if level is None or block.level == level), None)

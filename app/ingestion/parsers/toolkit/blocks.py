"""A parser's growing answer: cleans every block, leaves out the empty ones, and stops at the character limit."""

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.text_cleanup import clean_code, clean_line, clean_text
from app.ingestion.types import MAX_NODES, Block, BlockKind, TextTooLong, TooManyNodes, TooManyPages

SEPARATOR_CHARACTERS = 2
"""Characters between two blocks in the stored text; counted, so that a million tiny blocks are a lot of text too."""

_CLEANERS = {BlockKind.HEADING: clean_line, BlockKind.CODE: clean_code}


def check_page_count(page_count: int, options: ParseOptions) -> None:
    """Raises TooManyPages where the document has more pages than ``options`` allow."""
    if page_count > options.max_pages:
        raise TooManyPages(
            f"The file has {page_count} pages; the limit is {options.max_pages}.", limit=options.max_pages
        )


class BlockList:
    """Collects the blocks of one document in reading order."""

    def __init__(self, options: ParseOptions) -> None:
        self.blocks: list[Block] = []
        self._nodes = 1
        self._max_characters = options.max_characters
        self._characters = 0

    def add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        page: int | None = None,
        slide: int | None = None,
        sheet: int | None = None,
    ) -> None:
        """Clean the text and append it where anything is left. Raises TextTooLong."""
        text = _CLEANERS.get(kind, clean_text)(text)
        if text:
            self.append(Block(kind, text, level=level, page=page, slide=slide, sheet=sheet))

    def append(self, block: Block) -> None:
        """Take a block that is clean and not empty. Raises TextTooLong, TooManyNodes."""
        self.count_characters(len(block.text) + SEPARATOR_CHARACTERS)
        self._nodes += block.node_count
        if self._nodes > MAX_NODES:
            raise TooManyNodes
        self.blocks.append(block)

    def count_characters(self, characters: int) -> None:
        """Take characters off the limit. Raises TextTooLong when it is used up."""
        self._characters += characters
        if self._characters > self._max_characters:
            raise TextTooLong(
                f"The file holds more than {self._max_characters} characters of text.", limit=self._max_characters
            )

    def find_first_heading(self, *, level: int | None = None) -> str | None:
        """The text of the first heading (of that level)."""
        headings = (block for block in self.blocks if block.kind is BlockKind.HEADING)
        return next((block.text for block in headings if level is None or block.level == level), None)

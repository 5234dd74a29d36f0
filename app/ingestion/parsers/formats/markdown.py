"""Parser of Markdown (CommonMark with tables): headings, paragraphs, list items, code and tables."""

import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.tables import format_markdown_table
from app.ingestion.types import BlockKind, ParsedDocument

_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n(?=[\w-]+:)(?:.*\n)*?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a Markdown file. Front matter is left out, and embedded HTML is read.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks. The title is the first heading of level 1.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    text = _FRONT_MATTER.sub("", decoded.text.replace("\r\n", "\n"), count=1)
    blocks = BlockList(options)
    add_markdown(text, blocks)
    return ParsedDocument(blocks.blocks, title=blocks.find_first_heading(level=1), warnings=decoded.warnings)


def add_markdown(text: str, blocks: BlockList) -> None:
    """Add the blocks of Markdown, such as a cell of a notebook. Raises TextTooLong."""
    _MarkdownReader(blocks).read_tokens(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text))


class _MarkdownReader:
    """Converter of a flat sequence of tokens into blocks. Its state is the open heading, table and list items."""

    def __init__(self, blocks: BlockList) -> None:
        self.blocks = blocks
        self._rows: list[list[str]] | None = None
        self._heading_level = 0
        self._item_markers: list[str] = []

    def read_tokens(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            match token.type:
                case "heading_open":
                    self._heading_level = int(token.tag[1:])
                case "heading_close":
                    self._heading_level = 0
                case "list_item_open":
                    self._item_markers.append(f"{token.info}. " if token.info else "- ")
                case "list_item_close":
                    self._item_markers.pop()
                case "inline":
                    self._add_inline(token)
                case "fence" | "code_block":
                    self.blocks.add(BlockKind.CODE, token.content)
                case "html_block":
                    add_fragment(token.content, self.blocks)
                case _:
                    self._read_table_token(token)

    def _read_table_token(self, token: Token) -> None:
        if token.type == "table_open":
            self._rows = []
        elif token.type == "tr_open" and self._rows is not None:
            self._rows.append([])
        elif token.type == "table_close" and self._rows is not None:
            self.blocks.add(BlockKind.TABLE, format_markdown_table(self._rows))
            self._rows = None

    def _add_inline(self, token: Token) -> None:
        text = _to_plain_text(token.children or [])
        if self._rows is not None:
            self._rows[-1].append(text)
        elif self._heading_level:
            self.blocks.add(BlockKind.HEADING, text, level=self._heading_level)
        elif self._item_markers:
            self.blocks.add(BlockKind.LIST_ITEM, self._item_markers[-1] + text if text.strip() else "")
            # Only the first paragraph of an item has the marker.
            self._item_markers[-1] = ""
        else:
            self.blocks.add(BlockKind.PARAGRAPH, text)


def _to_plain_text(tokens: Sequence[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "image":
            parts.append(_to_plain_text(token.children or []))
    return "".join(parts)

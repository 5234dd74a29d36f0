"""Markdown (CommonMark with tables): headings, paragraphs, list items, code and tables as plain text."""

import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.decoding import decode
from app.ingestion.parsers.html import add_fragment
from app.ingestion.parsers.tables import markdown_table
from app.ingestion.types import BlockKind, ParsedDocument

_FRONT_MATTER = re.compile(r"\A---[^\S\n]*\n(?=[\w-]+:)(?:.*\n)*?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)")


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """The title is the first heading of level 1. Raises TooMuchText."""
    decoded = decode(path.read_bytes(), encoding=options.encoding)
    text = _FRONT_MATTER.sub("", decoded.text.replace("\r\n", "\n"), count=1)
    reader = _Reader(BlockList(options))
    reader.read(MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text))
    blocks = reader.blocks
    return ParsedDocument(blocks.blocks, title=blocks.first_heading(level=1), warnings=decoded.warnings)


class _Reader:
    """Turns the flat token stream into blocks; what is open is remembered between tokens."""

    def __init__(self, blocks: BlockList) -> None:
        self.blocks = blocks
        self._rows: list[list[str]] | None = None
        self._heading = 0
        self._items: list[str] = []

    def read(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            match token.type:
                case "heading_open":
                    self._heading = int(token.tag[1:])
                case "heading_close":
                    self._heading = 0
                case "list_item_open":
                    self._items.append(f"{token.info}. " if token.info else "- ")
                case "list_item_close":
                    self._items.pop()
                case "inline":
                    self._inline(token)
                case "fence" | "code_block":
                    self.blocks.add(BlockKind.CODE, token.content)
                case "html_block":
                    add_fragment(token.content, self.blocks)
                case _:
                    self._table(token)

    def _table(self, token: Token) -> None:
        if token.type == "table_open":
            self._rows = []
        elif token.type == "tr_open" and self._rows is not None:
            self._rows.append([])
        elif token.type == "table_close" and self._rows is not None:
            self.blocks.add(BlockKind.TABLE, markdown_table(self._rows))
            self._rows = None

    def _inline(self, token: Token) -> None:
        text = _plain(token.children or [])
        if self._rows is not None:
            self._rows[-1].append(text)
        elif self._heading:
            self.blocks.add(BlockKind.HEADING, text, level=self._heading)
        elif self._items:
            self.blocks.add(BlockKind.LIST_ITEM, self._items[-1] + text if text.strip() else "")
            # Only an item's first paragraph carries its marker.
            self._items[-1] = ""
        else:
            self.blocks.add(BlockKind.PARAGRAPH, text)


def _plain(tokens: Sequence[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type == "softbreak":
            parts.append(" ")
        elif token.type == "hardbreak":
            parts.append("\n")
        elif token.type == "image":
            parts.append(_plain(token.children or []))
    return "".join(parts)

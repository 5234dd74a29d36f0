"""Roles of the blocks of a Word document that are texts_elsewhere only from their neighbors.

A caption becomes a part of its table, a bold line becomes a heading, and an entry of a table of contents is left out.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.ingestion.parsers.toolkit.links import strip_addresses
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import Block, BlockKind

_TABLE_CAPTION = re.compile(
    r"(?:table|tab\.|tabelle|tableau|tabla|tabella|tabela|tabel|taulukko|tabell|exhibit|schedule|таблица|πίνακας|表"
    r"|표|جدول)\s*(?:[A-Z]?\d|[IVX]+\b)",
    re.IGNORECASE,
)
_OTHER_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|abb(?:ildung|\.)?|figura|chart|diagram|diagramm|image|photo|foto|bild|equation|рис(?:унок|\.)?"
    r"|図|图|圖)\s*\w*\d",
    re.IGNORECASE,
)
_TABLE_NOTE = re.compile(
    r"[*†‡§¹²³⁴⁵⁶⁷⁸⁹]|\[?\(?[a-z1-9][\])]\s|(?:notes?|source|sources|quelle|anmerkung|hinweis|remarque|nota|fuente|fonte|注)"
    r"\s?[:：.]",
    re.IGNORECASE,
)
_MAX_NOTE_CHARACTERS = 500
_MAX_CAPTION_CHARACTERS = 300
_MAX_HEADING_CHARACTERS = 100
_MAX_HEADING_WORDS = 14
_MAX_HEADING_SHARE = 0.4
_MAX_HEADING_RUN = 2
_MAX_ENTRY_CHARACTERS = 500
_LARGE = 1.2
_MIN_PARAGRAPHS_PER_HEADING = 40
_DATE_LINE = re.compile(
    r"(?:\w+,? )?(?:\d{1,2}\.? \w+,? \d{4}|\w+ \d{1,2}(?:st|nd|rd|th)?,? \d{4}|\w+ \d{4}"
    r"|\d{1,4}[./-]\d{1,2}[./-]\d{1,4})\Z",
)
_WORDS = re.compile(r"\w+")
_NUMBERS_AROUND = re.compile(r"^(?:\d+[\d.]*\s+)|(?:\s+(?:\d+|[ivxl]+))+$", re.IGNORECASE)


@dataclass(slots=True)
class BlockRoles:
    """Notes about blocks, by their index.

    Attributes:
        captions: Blocks in the style of a caption.
        contents: Entries of a table of contents.
        paragraphs: Sizes in half points of paragraphs of the body, and whether they are bold.
        table_notes: Footnotes and endnotes whose marks are in a table.
    """

    captions: set[int] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)
    paragraphs: dict[int, tuple[int, bool]] = field(default_factory=dict)
    table_notes: set[int] = field(default_factory=set)

    def apply(self, blocks: Sequence[Block]) -> tuple[list[Block], int]:
        """Give the blocks their roles.

        Args:
            blocks: Blocks of the document.

        Returns:
            The blocks, and the number of entries of tables of contents that were left out.
        """
        levels = self._find_bold_headings(blocks)
        removed = self._find_repeated_entries(blocks)
        owners = self._find_caption_owners(blocks)
        captions: dict[int, list[str]] = {}
        for caption, table in sorted(owners.items()):
            captions.setdefault(table, []).append(blocks[caption].text.replace("\n\n", "\n"))
        notes = self._find_table_notes(blocks, owners)
        footers: dict[int, list[str]] = {}
        for note, table in sorted(notes.items()):
            footers.setdefault(table, []).append(blocks[note].text)
        result = []
        for index, block in enumerate(blocks):
            if index in removed or index in owners or index in notes:
                continue
            if index in captions or index in footers:
                lines = [*captions.get(index, ()), block.text, *footers.get(index, ())]
                block = replace(block, text="\n".join(lines))
            elif index in levels:
                heading = clean_line(strip_addresses(block.text))
                block = replace(block, kind=BlockKind.HEADING, text=heading, level=levels[index])
            result.append(block)
        return result, len(removed)

    def _find_caption_owners(self, blocks: Sequence[Block]) -> dict[int, int]:
        """Return the table of each caption. Most documents have all captions above, or all below their tables."""
        candidates = [index for index, block in enumerate(blocks) if self._is_table_caption(index, block)]
        above = [index for index in candidates if _is_table(blocks, index + 1)]
        below = [index for index in candidates if _is_table(blocks, index - 1)]
        step = 1 if len(above) >= len(below) else -1
        owners: dict[int, int] = {}
        owned: set[int] = set()
        for index in candidates:
            for offset in (step, -step):
                if _is_table(blocks, index + offset) and (offset == step or index + offset not in owned):
                    owners[index] = index + offset
                    owned.add(index + offset)
                    break
        return owners

    def _find_table_notes(self, blocks: Sequence[Block], owners: Mapping[int, int]) -> dict[int, int]:
        """Return the table of each note that follows it directly, after its caption if that is below."""
        notes: dict[int, int] = {}
        for index, block in enumerate(blocks):
            if not self._is_table_note(index, block):
                continue
            before = index - 1
            if _is_table(blocks, before):
                notes[index] = before
            elif before in notes or owners.get(before, index) < before:
                notes[index] = notes.get(before, owners.get(before, -1))
        return notes

    def _is_table_note(self, index: int, block: Block) -> bool:
        if len(block.text) > _MAX_NOTE_CHARACTERS or "\n\n" in block.text:
            return False
        is_line = block.kind is BlockKind.PARAGRAPH and "\n" not in block.text
        return index in self.table_notes or (is_line and _TABLE_NOTE.match(block.text) is not None)

    def _is_table_caption(self, index: int, block: Block) -> bool:
        if block.kind is not BlockKind.PARAGRAPH or len(block.text) > _MAX_CAPTION_CHARACTERS:
            return False
        if index in self.captions:
            return _OTHER_CAPTION.match(block.text) is None
        return _TABLE_CAPTION.match(block.text) is not None and "\n" not in block.text

    def _find_repeated_entries(self, blocks: Sequence[Block]) -> set[int]:
        """Return the entries of tables of contents whose words are also a heading or another block."""
        if not self.contents:
            return set()
        texts_elsewhere = {_list_words(block.text) for index, block in enumerate(blocks) if index not in self.contents}
        texts_elsewhere.discard(())
        return {index for index in self.contents if _list_words(blocks[index].text) in texts_elsewhere}

    def _find_bold_headings(self, blocks: Sequence[Block]) -> dict[int, int]:
        """Return the levels of the lines that are headings by their look, if the document has hardly any headings."""
        heading_count = sum(block.kind is BlockKind.HEADING for block in blocks)
        texts = [index for index in self.paragraphs if index < len(blocks)]
        if heading_count > max(1, len(texts) // _MIN_PARAGRAPHS_PER_HEADING):
            return {}
        body_size = self._find_body_size(blocks, texts)
        candidates = [index for index in texts if self._is_heading_line(blocks, index, body_size)]
        if len(candidates) > _MAX_HEADING_SHARE * len(texts):
            return {}
        candidates = _drop_long_runs(candidates, len(blocks))
        is_large = {index: self._is_large(index, body_size) for index in candidates}
        base = 2 if heading_count else 1
        has_both = len(set(is_large.values())) == 2
        return {index: base + (has_both and not is_large[index]) for index in candidates}

    def _find_body_size(self, blocks: Sequence[Block], texts: Sequence[int]) -> int:
        sizes: Counter[int] = Counter()
        for index in texts:
            sizes[self.paragraphs[index][0]] += len(blocks[index].text)
        return sizes.most_common(1)[0][0] if sizes else 0

    def _is_large(self, index: int, body_size: int) -> bool:
        return bool(body_size) and self.paragraphs[index][0] >= _LARGE * body_size

    def _is_heading_line(self, blocks: Sequence[Block], index: int, body_size: int) -> bool:
        block = blocks[index]
        text = block.text
        if block.kind is not BlockKind.PARAGRAPH or not (self.paragraphs[index][1] or self._is_large(index, body_size)):
            return False
        words = text.split()
        is_short = len(text) <= _MAX_HEADING_CHARACTERS and len(words) <= _MAX_HEADING_WORDS and "\n" not in text
        if not is_short or text[-1] in ".;,…" or text[0] in "•–-*" or "=" in text or index in self.captions:
            return False
        if any(pattern.match(text) for pattern in (_TABLE_CAPTION, _OTHER_CAPTION, _TABLE_NOTE, _DATE_LINE)):
            return False
        return sum(character.isalpha() for character in text) >= 2


def _is_table(blocks: Sequence[Block], index: int) -> bool:
    return 0 <= index < len(blocks) and blocks[index].kind is BlockKind.TABLE


def _drop_long_runs(candidates: Sequence[int], block_count: int) -> list[int]:
    """Return the candidates without runs of more than two lines, such as an address, and without a last line."""
    remaining: list[int] = []
    run: list[int] = []
    for index in [*candidates, -1]:
        if run and index == run[-1] + 1:
            run.append(index)
            continue
        if len(run) <= _MAX_HEADING_RUN:
            remaining += run
        run = [index]
    return [index for index in remaining if index != block_count - 1]


def _list_words(text: str) -> tuple[str, ...]:
    """Return the words of a heading or an entry without its number and its page number."""
    return tuple(_WORDS.findall(_NUMBERS_AROUND.sub("", " ".join(text[:_MAX_ENTRY_CHARACTERS].split())).casefold()))

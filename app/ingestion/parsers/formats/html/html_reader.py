"""Reader of the elements of a page from first to last."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from app.ingestion.parsers.formats.html.elements import (
    CELL_ROLES,
    HEADINGS,
    INLINE,
    Attributes,
    count_words,
    get_epub_types,
    get_raised_tag,
    get_role,
    get_tag,
    is_block,
    is_table,
    join_spaces,
    list_children,
    needs_gap,
)
from app.ingestion.parsers.formats.html.html_tables import (
    find_figure_caption,
    is_data_table,
    is_table_caption,
    list_table_parts,
    read_cells,
)
from app.ingestion.parsers.formats.html.inline_text import InlineText
from app.ingestion.parsers.formats.html.leaf_elements import read_code, read_icon
from app.ingestion.parsers.formats.html.leaf_reader import LeafReader
from app.ingestion.parsers.formats.html.list_markers import ListCounter, read_number
from app.ingestion.parsers.formats.html.page_positions import BlockPlaces, SourcePlace
from app.ingestion.parsers.formats.html.page_state import PageState
from app.ingestion.parsers.formats.html.raw_blocks import RawBlock
from app.ingestion.parsers.formats.html.sibling_gaps import SIBLING_TAGS, SiblingGaps
from app.ingestion.parsers.formats.html.table_text import format_table
from app.ingestion.parsers.formats.html.visibility import Decision, Visibility
from app.ingestion.types import BlockKind

MAX_TERM_CHARACTERS = 200
# Components of documentation sites, whose title is an attribute.
_LABELED_TAGS = frozenset({"tabitem", "tab", "accordion", "accordionitem", "card", "step", "callout", "admonition"})
_NOTE_TYPES = frozenset({"footnote", "endnote", "rearnote", "note"})
_NOTE_MARK_TYPES = frozenset({"noteref", "annoref"})
_NOTE_MARK_CLASS = re.compile(r"\b(?:footnote|noteref|fnref|fn-?ref|footnote-?ref|reference)\b")
_PLAIN_TAGS = frozenset(
    {
        "a", "abbr", "article", "b", "body", "blockquote", "code", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3",
        "h4", "h5", "h6", "i", "label", "li", "main", "ol", "p", "section", "small", "span", "strong", "sub", "sup",
        "tbody", "td", "tr", "u", "ul",
    }
)  # fmt: skip
_CODE_TAGS = frozenset({"pre", "listing", "xmp", "plaintext"})
_FIELD_TAGS = frozenset({"meter", "output", "progress"})
_RAISED = frozenset({"sup", "sub"})


class HtmlReader:
    """Reader of an HTML tree into blocks.

    It uses a stack instead of recursion, because elements may be nested deeper than Python can recurse.

    Attributes:
        blocks: Blocks that were read so far.
        panels: Ranges of the blocks of hidden elements, which may be copies of visible ones.
    """

    def __init__(self, page: PageState, *, is_cell: bool = False, is_inner: bool = False) -> None:
        self.blocks: list[RawBlock] = []
        self.panels: list[tuple[int, int]] = []
        self._page = page
        self._is_cell, self._is_inner = is_cell, is_inner
        self._visibility = Visibility(page)
        self._text = InlineText(page.base, page.abbreviations)
        self._leaves = LeafReader(page, self._text, self._flush, is_cell=is_cell)
        self._kind, self._level = BlockKind.PARAGRAPH, 0
        self._marker = ""
        self._lists: list[ListCounter | None] = []
        self._places: list[SourcePlace | None] = []
        self._terms: list[str] = []
        self._term_places: list[SourcePlace | None] = []
        self._is_in_term = False
        self._open_panels: dict[int, int] = {}
        self._siblings = SiblingGaps()

    def read_tree(self, root: LexborNode) -> None:
        """Read an element and everything in it."""
        self.read_part(root)
        self.finish()

    def read_part(self, node: LexborNode) -> None:
        """Read an element without ending the block, so that the next element continues it."""
        stack: list[tuple[LexborNode, str, Attributes, bool]] = [(node, "", {}, False)]
        while stack:
            node, left_tag, attributes, is_inline = stack.pop()
            if left_tag:
                self._leave(node, left_tag, attributes, is_inline=is_inline)
                continue
            tag = get_tag(node)
            if tag == "-text":
                self._text.add(join_spaces(node.text_content or ""))
                self._add_text_place(node)
            elif not tag.startswith(("-", "!")):
                attributes = node.attributes
                if self._begin(node, tag, attributes):
                    is_inline = self._is_inline(node, tag, attributes)
                    self._enter(node, tag, attributes, is_inline=is_inline)
                    stack.append((node, tag, attributes, is_inline))
                    stack.extend((child, "", {}, False) for child in reversed(list_children(node)))

    def finish(self) -> list[RawBlock]:
        """End the last block and return all blocks."""
        self._flush()
        self._add_terms()
        return self.blocks

    def _begin(self, node: LexborNode, tag: str, attributes: Attributes) -> bool:
        """Read or skip an element as a whole; return true if its children must be read one by one."""
        if tag == "script":
            self._leaves.read_script(node, attributes)
            return False
        decision = self._visibility.decide(node, tag, attributes)
        if decision is Decision.IGNORE or node.mem_id in self._page.handled:
            return False
        if decision is Decision.LEAVE_OUT:
            self._leave_out(node, tag)
            return False
        if decision is Decision.READ_PANEL and not self._is_cell:
            self._flush()
            self._open_panels[node.mem_id] = len(self.blocks)
        block_count = len(self.blocks)
        if self._read_leaf(node, tag, attributes):
            self._add_leaf_place(node, block_count)
            self._close_panel(node)
            self._visibility.enter(tag, attributes)
            self._visibility.leave(node, tag, attributes)
            return False
        return True

    def _leave_out(self, node: LexborNode, tag: str) -> None:
        self._page.leave_out(node)
        headline = node.css_first("h1") if tag in ("header", "div") else None
        if headline is not None and not self._is_cell:
            self._flush()
            self._page.words_left_out -= count_words(headline)
            self.blocks.append(
                RawBlock(BlockKind.HEADING, headline.text(separator=" "), 1, self._find_places(headline))
            )

    def _is_inline(self, node: LexborNode, tag: str, attributes: Attributes) -> bool:
        if tag in INLINE:
            return not attributes or not is_block(attributes)
        if "-" in tag and node.parent is not None and node.child is not None:
            # A custom element is inline, unless its style sheet says otherwise.
            parent = get_tag(node.parent)
            return parent == "p" or parent in HEADINGS or parent in INLINE
        return False

    def _read_leaf(self, node: LexborNode, tag: str, attributes: Attributes) -> bool:
        """Read an element that is read as a whole; return false if its children must be read one by one."""
        if tag in _PLAIN_TAGS and "role" not in attributes and "style" not in attributes and node.child is not None:
            return False
        if tag in _CODE_TAGS:
            self._flush()
            self._add_terms()
            self.blocks.append(RawBlock(BlockKind.CODE, read_code(node), 0, self._find_places(node)))
        elif is_table(tag, attributes):
            return not self._is_cell and self._read_table(node)
        elif tag == "figcaption":
            return is_table_caption(node)
        elif tag == "iframe" and (attributes.get("srcdoc") or "").strip() and not self._is_cell:
            self._read_inner_page(attributes["srcdoc"] or "")
        else:
            return self._leaves.read(node, tag, attributes)
        return True

    def _read_inner_page(self, markup: str) -> None:
        """Read the page that an ``iframe`` contains as an attribute. Pages inside of that page are counted."""
        self._flush()
        body = LexborHTMLParser(markup).body
        if body is None or self._is_inner:
            self._page.media += 1
            return
        reader = HtmlReader(self._page, is_inner=True)
        reader.read_tree(body)
        self.blocks.extend(reader.blocks)

    def _read_table(self, node: LexborNode) -> bool:
        parts = list_table_parts(node)
        if not is_data_table(node, parts):
            return False
        self._flush()
        self._add_terms()
        captions = [self._read_cell(caption) for caption in parts.captions]
        label = node.attributes.get("aria-label")
        if label and not captions:
            captions.append(label)
        figure_caption = find_figure_caption(node)
        elements = [node]
        if figure_caption is not None:
            self._page.handled.add(figure_caption.mem_id)
            captions.append(self._read_cell(figure_caption))
            elements.insert(0, figure_caption)
        head, body = read_cells(parts, self._read_cell)
        places = self._find_places(*elements)
        self.blocks.append(RawBlock(BlockKind.TABLE, format_table(captions, head, body), 0, places))
        return True

    def _read_cell(self, node: LexborNode) -> str:
        """Return the text of a cell on one line: list items are joined by semicolons, other lines by spaces."""
        only = node.child
        if only is None:
            return read_icon(node.attributes)
        if only.next is None and only.tag == "-text":
            return only.text_content or ""
        reader = HtmlReader(self._page, is_cell=True)
        for child in list_children(node):
            reader.read_part(child)
        return join_blocks(reader.finish())

    def _enter(self, node: LexborNode, tag: str, attributes: Attributes, *, is_inline: bool) -> None:
        self._visibility.enter(tag, attributes)
        if is_inline:
            self._enter_inline(node, get_raised_tag(tag, attributes), attributes)
            return
        role = get_role(attributes)
        if self._is_cell and role in CELL_ROLES | {"row"} and tag in INLINE:
            self._text.add(" ")
        self._flush()
        level = _get_heading_level(tag, role, attributes)
        if level:
            self._kind, self._level, self._text.is_plain = BlockKind.HEADING, level, True
        elif tag == "dt":
            if not _is_after_term(node):
                self._add_terms()
            self._is_in_term = True
        elif tag == "a":
            self._open_link(node, attributes)
        else:
            self._enter_list(node, tag, role, attributes)

    def _enter_list(self, node: LexborNode, tag: str, role: str, attributes: Attributes) -> None:
        if tag in ("ul", "menu", "dir"):
            self._lists.append(None)
        elif tag == "ol":
            self._lists.append(ListCounter(node))
        elif tag == "li" or role == "listitem":
            self._kind, self._marker = BlockKind.LIST_ITEM, self._advance_marker(attributes)
        elif get_epub_types(attributes) & _NOTE_TYPES:
            self._kind = BlockKind.NOTE
        elif tag in _LABELED_TAGS:
            self._text.add(attributes.get("label") or attributes.get("title") or "")
            self._add_tag_place(node)
            self._flush()

    def _enter_inline(self, node: LexborNode, tag: str, attributes: Attributes) -> None:
        if tag in SIBLING_TAGS and self._siblings.is_glued(node, tag, self._text.last_character):
            self._text.add_gap()
        elif tag in _FIELD_TAGS or (attributes and needs_gap(attributes)) or self._is_small_number(node, tag):
            self._text.add(" ")
        if tag == "a":
            self._open_link(node, attributes)
        elif tag in _RAISED:
            is_note = tag == "sup" and bool(_NOTE_MARK_CLASS.search(attributes.get("class") or ""))
            self._text.open(node.mem_id, tag, is_note=is_note)
        elif tag in ("ruby", "rt"):
            self._text.open(node.mem_id, tag)
        elif tag in ("abbr", "acronym", "dfn") and attributes.get("title"):
            self._add_tag_place(node)
            self._text.open(node.mem_id, "abbr", " ".join((attributes.get("title") or "").split()))

    def _is_small_number(self, node: LexborNode, tag: str) -> bool:
        """Return whether an element is a small number after a number, such as the cents of a price."""
        return tag == "small" and self._text.last_character.isdigit() and node.text()[:1].isdigit()

    def _open_link(self, node: LexborNode, attributes: Attributes) -> None:
        address = attributes.get("href") or ""
        is_note = bool(get_epub_types(attributes) & _NOTE_MARK_TYPES)
        self._add_tag_place(node)
        self._text.open(node.mem_id, "a", address, is_note=is_note, label=read_icon(attributes))

    def _leave(self, node: LexborNode, tag: str, attributes: Attributes, *, is_inline: bool) -> None:
        self._visibility.leave(node, tag, attributes)
        if is_inline:
            following = node.next if tag == "ruby" else None
            self._text.close(node.mem_id, defers_readings=following is not None and following.tag == "ruby")
            if attributes and needs_gap(attributes):
                self._text.add(" ")
            self._close_panel(node)
            return
        if tag == "a":
            self._text.close(node.mem_id)
        self._flush()
        if self._kind is BlockKind.HEADING or tag == "li" or self._marker or get_epub_types(attributes) & _NOTE_TYPES:
            self._kind, self._level, self._marker, self._text.is_plain = BlockKind.PARAGRAPH, 0, "", False
        if tag in ("ul", "ol", "menu", "dir") and self._lists:
            self._lists.pop()
        elif tag == "dt":
            self._is_in_term = False
        elif tag in ("dd", "dl"):
            self._add_terms()
        self._close_panel(node)

    def _close_panel(self, node: LexborNode) -> None:
        start = self._open_panels.pop(node.mem_id, None) if self._open_panels else None
        if start is not None:
            self._flush()
            self.panels.append((start, len(self.blocks)))

    def _advance_marker(self, attributes: Attributes) -> str:
        counter = self._lists[-1] if self._lists else None
        return "- " if counter is None else counter.advance(attributes)

    def _flush(self) -> None:
        text = self._text.take().strip()
        places, self._places = self._places, []
        if not text:
            return
        if self._is_in_term and self._kind is BlockKind.PARAGRAPH and len(text) <= MAX_TERM_CHARACTERS:
            self._terms.append(text)
            self._term_places += places
            return
        if self._terms:
            if self._kind is BlockKind.PARAGRAPH:
                term = ", ".join(self._terms)
                text = f"{term}{' ' if term.endswith((':', '?')) else ': '}{text}"
                places = [*self._term_places, *places]
                self._terms.clear()
                self._term_places.clear()
            self._add_terms()
        block_places = BlockPlaces(places, prefix=len(self._marker))
        self.blocks.append(RawBlock(self._kind, self._marker + text, self._level, block_places))
        self._marker = ""

    def _add_terms(self) -> None:
        if self._terms:
            places = BlockPlaces(tuple(self._term_places))
            self.blocks.append(RawBlock(BlockKind.PARAGRAPH, ", ".join(self._terms), 0, places))
            self._terms.clear()
            self._term_places.clear()

    def _add_text_place(self, node: LexborNode) -> None:
        if self._page.positions is not None:
            place = self._page.positions.find_text(node)
            if place is None or place.start < place.end:
                self._places.append(place)

    def _add_tag_place(self, node: LexborNode) -> None:
        """Add the place of an element's first tag, whose attributes may be part of the text."""
        if self._page.positions is not None:
            self._places.append(self._page.positions.find_tag(node))

    def _add_leaf_place(self, node: LexborNode, block_count: int) -> None:
        """Add the place of an element that was read as a whole to its blocks, or to the block that it is a part of."""
        for number in range(block_count, len(self.blocks)):
            if not self.blocks[number].places.places:
                self.blocks[number] = self.blocks[number]._replace(places=self._find_places(node))
        if self._page.positions is not None and self._text.has_parts:
            self._places.append(self._page.positions.find_element(node))

    def _find_places(self, *nodes: LexborNode) -> BlockPlaces:
        positions = self._page.positions
        return BlockPlaces(() if positions is None else tuple(map(positions.find_element, nodes)))


def _is_after_term(node: LexborNode) -> bool:
    before = node.prev
    while before is not None and before.tag == "-text":
        before = before.prev
    return before is not None and before.tag == "dt"


def _get_heading_level(tag: str, role: str, attributes: Attributes) -> int:
    if tag in HEADINGS:
        return HEADINGS[tag]
    return max(1, min(read_number(attributes.get("aria-level"), 2), 6)) if role == "heading" else 0


def join_blocks(blocks: list[RawBlock]) -> str:
    """Join the blocks of a cell on one line: list items by semicolons, all others by spaces."""
    text = ""
    previous: BlockKind | None = None
    for kind, block, *_ in blocks:
        line = join_spaces(block).strip()
        if kind is BlockKind.LIST_ITEM:
            line = line.removeprefix("- ")
        if text and line:
            text += "; " if kind is previous is BlockKind.LIST_ITEM else " "
        text += line
        previous = kind
    return text

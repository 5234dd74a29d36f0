"""Blocks to the document tree: sections by heading level and by slide, paragraphs as leaves."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from app.ingestion.sentences import sentence_spans, stripped
from app.ingestion.titles import MAX_TITLE, split_headings, split_title, title_warnings
from app.ingestion.types import (
    MAX_NODES,
    Block,
    BlockKind,
    ChunkerFailed,
    DocumentTree,
    NodeKind,
    ParsedDocument,
    PrintedLines,
    TooManyNodes,
    TreeNode,
)

SEPARATOR = "\n\n"
MAX_PAGE_LINES = 10_000
"""More lines than a page has to be read; those of further blocks are not placed."""

FIRST_BLOCKS = 20
"""Blocks that are asked whether they repeat a long title."""

PROSE = frozenset({BlockKind.PARAGRAPH, BlockKind.LIST_ITEM, BlockKind.NOTE})


def build_tree(parsed: ParsedDocument) -> DocumentTree:
    """The stored text of a document (blocks joined by a blank line) and the tree over it.

    A heading opens a section that lasts until a heading of the same or a higher rank, whatever levels are skipped. Each
    slide or sheet is at least one section of its own below the document: it takes its title from a heading that comes
    first, else it has none. A section's ``level`` is its heading's, an untitled slide's is 1; the document and leaves
    have 0.

    Titles and headings are cut to ``MAX_TITLE`` characters, with a warning; their rest is a paragraph.
    """
    title, blocks = _limited(parsed)
    root = TreeNode(NodeKind.DOCUMENT, 0, 0, 0, title=title)
    # The open sections, outermost first, each with the rank that a heading must be above to close it.
    open_sections: list[tuple[int, TreeNode]] = [(0, root)]
    place: tuple[int | None, int | None] = (None, None)
    printed: dict[int, PrintedLines] = {}
    position = 0
    for block in blocks:
        end = position + len(block.text)
        heading = block.kind is BlockKind.HEADING
        if (block.slide, block.sheet) != place:
            place = slide, sheet = block.slide, block.sheet
            del open_sections[1:]
            if place != (None, None) and not heading:
                _open(open_sections, TreeNode(NodeKind.SECTION, 1, position, end, slide=slide, sheet=sheet), rank=0)
        if heading:
            _close(open_sections, block.level)
            section = TreeNode(NodeKind.SECTION, block.level, position, end, title=block.text)
            section.slide, section.sheet = place
            _open(open_sections, section, rank=max(block.level, 1))
        _add_leaf(open_sections, block, position, end)
        _add_lines(printed, block, position)
        position = end + len(SEPARATOR)
    _number(root)
    warnings = title_warnings(parsed.title, parsed.blocks)
    return DocumentTree(SEPARATOR.join(block.text for block in blocks), root, printed, warnings)


def add_sentences(tree: DocumentTree) -> None:
    """Give every paragraph of prose its sentences as children; headings, tables, code and records have none.

    Raises TooManyNodes.
    """
    waiting, nodes = [tree.root], 0
    while waiting:
        node = waiting.pop()
        waiting += node.children
        nodes += 1
        if node.block in PROSE:
            spans = (stripped(tree.text, *span) for span in sentence_spans(tree.text, node.start, node.end))
            sentences = (_sentence(node, start, end) for start, end in spans if start < end)
            node.children = list(islice(sentences, MAX_NODES))
            nodes += len(node.children)
            if nodes > MAX_NODES:
                raise TooManyNodes
            for index, child in enumerate(node.children):
                child.path = (*node.path, index)


def add_topics(tree: DocumentTree, topics: Sequence[TreeNode]) -> None:
    """Append each topic to the node that its path names. Raises ChunkerFailed for one that has no place there."""
    for topic in topics:
        parent = find_node(tree, topic.path[:-1])
        fits = parent is not None and parent.start <= topic.start < topic.end <= parent.end
        if parent is None or not fits or topic.path != (*parent.path, len(parent.children)):
            raise ChunkerFailed("The chunker made a topic that has no place in the document.")
        if parent.kind not in (NodeKind.DOCUMENT, NodeKind.SECTION) or topic.kind is not NodeKind.TOPIC:
            raise ChunkerFailed("The chunker made a node that is no topic of a section.")
        parent.children.append(topic)


def walk(root: TreeNode) -> Iterator[TreeNode]:
    """The nodes in reading order; a loop, because a hostile file may nest deeper than Python recurses."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def find_node(tree: DocumentTree, path: Sequence[int]) -> TreeNode | None:
    """The node with this path."""
    node = tree.root
    for index in path:
        if not 0 <= index < len(node.children):
            return None
        node = node.children[index]
    return node


def _limited(parsed: ParsedDocument) -> tuple[str | None, list[Block]]:
    """The title and blocks within their limits; the rest of a title that no block repeats is the first paragraph."""
    blocks = list(split_headings(parsed.blocks))
    if parsed.title is None or len(parsed.title) <= MAX_TITLE:
        return parsed.title, blocks
    title, rest = split_title(parsed.title)
    if rest and not any(rest in block.text for block in blocks[:FIRST_BLOCKS]):
        first = blocks[0] if blocks else Block(BlockKind.PARAGRAPH, rest)
        place = (first.page, first.slide, first.sheet)
        blocks.insert(0, Block(BlockKind.PARAGRAPH, rest, 0, *place))
    return title or None, blocks


def _sentence(paragraph: TreeNode, start: int, end: int) -> TreeNode:
    found = TreeNode(NodeKind.SENTENCE, 0, start, end, page=paragraph.page, page_end=paragraph.page_end)
    found.slide, found.sheet = paragraph.slide, paragraph.sheet
    return found


def _open(open_sections: list[tuple[int, TreeNode]], section: TreeNode, *, rank: int) -> None:
    open_sections[-1][1].children.append(section)
    open_sections.append((rank, section))


def _close(open_sections: list[tuple[int, TreeNode]], level: int) -> None:
    """Close what a heading of this level ends; the document and an untitled slide have rank 0 and stay."""
    while open_sections[-1][0] >= max(level, 1):
        open_sections.pop()


def _add_leaf(open_sections: list[tuple[int, TreeNode]], block: Block, start: int, end: int) -> None:
    leaf = TreeNode(NodeKind.PARAGRAPH, 0, start, end, page=block.page, page_end=block.page, block=block.kind)
    leaf.slide, leaf.sheet, leaf.picture = block.slide, block.sheet, block.picture
    open_sections[-1][1].children.append(leaf)
    for _, section in open_sections:
        section.end = end
        if block.page is not None:
            section.page = block.page if section.page is None else min(section.page, block.page)
            section.page_end = block.page if section.page_end is None else max(section.page_end, block.page)


def _add_lines(printed: dict[int, PrintedLines], block: Block, position: int) -> None:
    """Append the block's lines to those of its page, as ranges of the stored text."""
    added = block.printed
    if added is None or block.page is None:
        return
    if block.page not in printed:
        printed[block.page] = replace(added, lines=array("i"))
    page = printed[block.page].lines
    if len(page) + len(added.lines) <= 6 * MAX_PAGE_LINES:
        lines = added.lines[:]
        for place in range(0, len(lines), 6):
            lines[place] += position
            lines[place + 1] += position
        page.extend(lines)


def _number(root: TreeNode) -> None:
    """Set every node's path; a loop, because a hostile file may nest deeper than Python recurses."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for index, child in enumerate(node.children):
            child.path = (*node.path, index)
            waiting.append(child)

"""Build the document tree from blocks: sections by heading level and by slide, with paragraphs as leaves."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from app.documents.source_map import UNKNOWN, SourceMap, SourceSegment
from app.ingestion.title_limits import MAX_TITLE_CHARACTERS, list_title_warnings, split_headings, split_title
from app.ingestion.types import (
    MAX_NODES,
    Block,
    BlockKind,
    ChunkerFailed,
    DocumentTree,
    LineLayout,
    NodeKind,
    ParsedDocument,
    TooManyNodes,
    TreeNode,
)
from app.lexical.sentences import find_sentence_spans, strip_range

SEPARATOR = "\n\n"
MAX_PAGE_LINES = 10_000
"""Maximum number of lines of a page whose positions are stored; no readable page has more."""

TITLE_SEARCH_BLOCKS = 20
"""Number of first blocks that are searched for the rest of a title that is too long."""

PROSE_KINDS = frozenset({BlockKind.PARAGRAPH, BlockKind.LIST_ITEM, BlockKind.NOTE})


def build_tree(parsed: ParsedDocument) -> DocumentTree:
    """Build the stored text of a document, which joins the blocks with blank lines, and the tree over the text.

    A heading opens a section. The section ends before the next heading of the same or a higher rank; levels may be
    skipped. Each slide and each sheet is a separate section below the document. If a heading comes
    first, it is the title of the slide or sheet; otherwise the slide or sheet has no title. The level of a section is
    the level of its heading, or 1 for a slide without a title. The document and the leaves have level 0.

    Titles and headings are cut to ``MAX_TITLE_CHARACTERS`` characters, with a warning. The rest becomes a paragraph.

    Args:
        parsed: Result of the parser.

    Returns:
        The text, the tree, the positions of the lines and the warnings about titles.
    """
    title, blocks = _limit_titles(parsed)
    root = TreeNode(NodeKind.DOCUMENT, 0, 0, 0, title=title)
    # The open sections with their ranks, outermost first. A heading closes the sections of its level and below it.
    open_sections: list[tuple[int, TreeNode]] = [(0, root)]
    location: tuple[int | None, int | None] = (None, None)
    line_layouts: dict[int, LineLayout] = {}
    position = 0
    for block in blocks:
        end = position + len(block.text)
        is_heading = block.kind is BlockKind.HEADING
        if (block.slide, block.sheet) != location:
            location = slide, sheet = block.slide, block.sheet
            del open_sections[1:]
            if location != (None, None) and not is_heading:
                _open_section(
                    open_sections, TreeNode(NodeKind.SECTION, 1, position, end, slide=slide, sheet=sheet), rank=0
                )
        if is_heading:
            _close_sections(open_sections, block.level)
            section = TreeNode(NodeKind.SECTION, block.level, position, end, title=block.text)
            section.slide, section.sheet = location
            _open_section(open_sections, section, rank=max(block.level, 1))
        _add_leaf(open_sections, block, position, end)
        _add_lines(line_layouts, block, position)
        position = end + len(SEPARATOR)
    _assign_paths(root)
    warnings = list_title_warnings(parsed.title, parsed.blocks)
    text = SEPARATOR.join(block.text for block in blocks)
    return DocumentTree(text, root, line_layouts, warnings, *_join_maps(blocks))


def _join_maps(blocks: Sequence[Block]) -> tuple[SourceMap | None, SourceMap | None]:
    """Return the positions and the places of all blocks, as ranges of the stored text; None if no block has any."""
    source_maps, place_maps = [block.source_map for block in blocks], [block.place_map for block in blocks]
    # A heading without a number, such as the name of a sheet, does not hide the rows below it.
    return _join_block_maps(blocks, source_maps, UNKNOWN), _join_block_maps(blocks, place_maps, None)


def _join_block_maps(
    blocks: Sequence[Block], maps: Sequence[SourceMap | None], missing_length: int | None
) -> SourceMap | None:
    """Join maps of blocks. A block without a map gets a segment with this source length; None for no segment."""
    if all(block_map is None for block_map in maps):
        return None
    segments: list[SourceSegment] = []
    position = 0
    for block, block_map in zip(blocks, maps, strict=True):
        missing = [] if missing_length is None else [SourceSegment(0, len(block.text), 0, missing_length)]
        block_segments = missing if block_map is None else block_map
        segments += (segment._replace(start=segment.start + position) for segment in block_segments)
        position += len(block.text) + len(SEPARATOR)
    return SourceMap.from_segments(segments)


def add_sentences(tree: DocumentTree) -> None:
    """Add the sentences of each paragraph of prose as its children. Headings, tables, code and records get none.

    Args:
        tree: Tree of the document, which is changed in place.

    Raises:
        TooManyNodes: The tree would have more than ``MAX_NODES`` nodes.
    """
    pending, node_count = [tree.root], 0
    while pending:
        node = pending.pop()
        pending += node.children
        node_count += 1
        if node.block in PROSE_KINDS:
            spans = (strip_range(tree.text, *span) for span in find_sentence_spans(tree.text, node.start, node.end))
            sentences = (_create_sentence_node(node, start, end) for start, end in spans if start < end)
            node.children = list(islice(sentences, MAX_NODES))
            node_count += len(node.children)
            if node_count > MAX_NODES:
                raise TooManyNodes
            for index, child in enumerate(node.children):
                child.path = (*node.path, index)


def add_topics(tree: DocumentTree, topics: Sequence[TreeNode]) -> None:
    """Append the topics of a chunker to the tree, each to the node that the topic's path names.

    Args:
        tree: Tree of the document, which is changed in place.
        topics: Topics in reading order.

    Raises:
        ChunkerFailed: A topic has an invalid path, range or kind.
    """
    for topic in topics:
        parent = find_node(tree, topic.path[:-1])
        is_inside_parent = parent is not None and parent.start <= topic.start < topic.end <= parent.end
        if parent is None or not is_inside_parent or topic.path != (*parent.path, len(parent.children)):
            raise ChunkerFailed("The chunker returned a topic with an invalid path or range. Report it to its author.")
        if parent.kind not in (NodeKind.DOCUMENT, NodeKind.SECTION) or topic.kind is not NodeKind.TOPIC:
            raise ChunkerFailed("The chunker returned a node that is no topic of a section. Report it to its author.")
        parent.children.append(topic)


def walk_nodes(root: TreeNode) -> Iterator[TreeNode]:
    """Yield the nodes in reading order. It is a loop because a hostile file may nest deeper than Python recurses."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def find_node(tree: DocumentTree, path: Sequence[int]) -> TreeNode | None:
    """Return the node with a path, or None if the tree has no such node."""
    node = tree.root
    for index in path:
        if not 0 <= index < len(node.children):
            return None
        node = node.children[index]
    return node


def _limit_titles(parsed: ParsedDocument) -> tuple[str | None, list[Block]]:
    """Shorten the title and the headings. The rest of the title becomes the first paragraph if no block repeats it."""
    blocks = list(split_headings(parsed.blocks))
    if parsed.title is None or len(parsed.title) <= MAX_TITLE_CHARACTERS:
        return parsed.title, blocks
    title, remainder = split_title(parsed.title)
    if remainder and not any(remainder in block.text for block in blocks[:TITLE_SEARCH_BLOCKS]):
        first = blocks[0] if blocks else Block(BlockKind.PARAGRAPH, remainder)
        location = (first.page, first.slide, first.sheet)
        blocks.insert(0, Block(BlockKind.PARAGRAPH, remainder, 0, *location))
    return title or None, blocks


def _create_sentence_node(paragraph: TreeNode, start: int, end: int) -> TreeNode:
    node = TreeNode(NodeKind.SENTENCE, 0, start, end, page=paragraph.page, page_end=paragraph.page_end)
    node.slide, node.sheet = paragraph.slide, paragraph.sheet
    return node


def _open_section(open_sections: list[tuple[int, TreeNode]], section: TreeNode, *, rank: int) -> None:
    open_sections[-1][1].children.append(section)
    open_sections.append((rank, section))


def _close_sections(open_sections: list[tuple[int, TreeNode]], level: int) -> None:
    """Close the sections that a heading of this level ends. The document and an untitled slide have rank 0 and stay."""
    while open_sections[-1][0] >= max(level, 1):
        open_sections.pop()


def _add_leaf(open_sections: list[tuple[int, TreeNode]], block: Block, start: int, end: int) -> None:
    leaf = TreeNode(NodeKind.PARAGRAPH, 0, start, end, page=block.page, page_end=block.page, block=block.kind)
    leaf.slide, leaf.sheet, leaf.image_index = block.slide, block.sheet, block.image_index
    open_sections[-1][1].children.append(leaf)
    for _, section in open_sections:
        section.end = end
        if block.page is not None:
            section.page = block.page if section.page is None else min(section.page, block.page)
            section.page_end = block.page if section.page_end is None else max(section.page_end, block.page)


def _add_lines(line_layouts: dict[int, LineLayout], block: Block, position: int) -> None:
    """Append the lines of a block to the lines of its page, as ranges of the stored text."""
    block_layout = block.line_layout
    if block_layout is None or block.page is None:
        return
    if block.page not in line_layouts:
        line_layouts[block.page] = replace(block_layout, lines=array("i"))
    page_lines = line_layouts[block.page].lines
    if len(page_lines) + len(block_layout.lines) <= 6 * MAX_PAGE_LINES:
        lines = block_layout.lines[:]
        for index in range(0, len(lines), 6):
            lines[index] += position
            lines[index + 1] += position
        page_lines.extend(lines)


def _assign_paths(root: TreeNode) -> None:
    """Set every node's path; a loop, because a hostile file may nest deeper than Python recurses."""
    pending = [root]
    while pending:
        node = pending.pop()
        for index, child in enumerate(node.children):
            child.path = (*node.path, index)
            pending.append(child)

"""Construction of chunk drafts from ranges of the stored text."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, TreeNode


class ChunkRange(NamedTuple):
    """Range of the stored text of a chunk, in code points, with the head of the table that the range begins in."""

    start: int
    end: int
    table_head: str | None = None


@dataclass(frozen=True, slots=True)
class LeafIndex:
    """Index of the paragraphs of a tree, in reading order, by their range of the text."""

    nodes: list[TreeNode]
    starts: list[int]

    @classmethod
    def from_tree(cls, tree: DocumentTree) -> Self:
        """Build the index of a tree."""
        nodes = collect_leaves(tree.root)
        return cls(nodes, [node.start for node in nodes])

    def find_overlapping(self, start: int, end: int) -> list[TreeNode]:
        """Return the paragraphs that share a character with the range."""
        first = bisect_right(self.starts, start) - 1
        if first < 0 or self.nodes[first].end <= start:
            first += 1
        return self.nodes[first : bisect_left(self.starts, end)]


def collect_leaves(root: TreeNode) -> list[TreeNode]:
    """Collect the paragraphs below a node.

    Args:
        root: The node; a paragraph is its own result.

    Returns:
        The paragraph nodes in reading order.
    """
    leaves: list[TreeNode] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if node.kind is NodeKind.PARAGRAPH:
            leaves.append(node)
        else:
            pending.extend(reversed(node.children))
    return leaves


def build_drafts(
    tree: DocumentTree, ranges: Iterable[ChunkRange | tuple[int, int]], leaves: LeafIndex | None = None
) -> list[ChunkDraft]:
    """Build a chunk draft for each range of the stored text.

    Args:
        tree: Tree of the document.
        ranges: Start and end of each chunk in code points, in reading order. Both are inside paragraphs. The ranges
            of ``pack_pieces`` also have the head of a table.
        leaves: Index of the paragraphs of the tree; None builds it.

    Returns:
        A draft for each range, with its text, headings, pages and node.
    """
    leaves = leaves or LeafIndex.from_tree(tree)
    return [_build_draft(tree, leaves, *ChunkRange(*chunk_range)) for chunk_range in ranges]


def find_enclosing_nodes(root: TreeNode, start: int, end: int) -> list[TreeNode]:
    """Return the nodes that contain the whole range, outermost first."""
    enclosing = [root]
    while enclosing[-1].children:
        children = enclosing[-1].children
        index = bisect_right(children, start, key=lambda node: node.start) - 1
        if index < 0 or children[index].end < end:
            break
        enclosing.append(children[index])
    return enclosing


def _build_draft(tree: DocumentTree, leaves: LeafIndex, start: int, end: int, table_head: str | None) -> ChunkDraft:
    overlapping = leaves.find_overlapping(start, end)
    first_pages = [leaf.page for leaf in overlapping if leaf.page is not None]
    last_pages = [leaf.page_end for leaf in overlapping if leaf.page_end is not None]
    enclosing = find_enclosing_nodes(tree.root, start, end)
    return ChunkDraft(
        text=tree.text[start:end],
        start=start,
        end=end,
        section_titles=tuple(node.title for node in enclosing if node.kind is NodeKind.SECTION and node.title),
        page=min(first_pages, default=None),
        page_end=max(last_pages, default=None),
        slide=overlapping[0].slide,
        node_path=enclosing[-1].path,
        table_head=table_head,
    )

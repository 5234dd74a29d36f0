"""Ranges of the stored text into chunk drafts: text, headings above, pages and place in the tree."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, TreeNode


@dataclass(frozen=True, slots=True)
class LeafIndex:
    """A tree's paragraphs in reading order, found by the range of text that they touch."""

    nodes: list[TreeNode]
    starts: list[int]

    @classmethod
    def from_tree(cls, tree: DocumentTree) -> Self:
        """All of a tree."""
        nodes = collect_leaves(tree.root)
        return cls(nodes, [node.start for node in nodes])

    def find_overlapping(self, start: int, end: int) -> list[TreeNode]:
        """Those that share a character with the range."""
        first = bisect_right(self.starts, start) - 1
        if first < 0 or self.nodes[first].end <= start:
            first += 1
        return self.nodes[first : bisect_left(self.starts, end)]


def collect_leaves(root: TreeNode) -> list[TreeNode]:
    """A node's paragraphs in reading order."""
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
    tree: DocumentTree, ranges: Iterable[tuple[int, int]], leaves: LeafIndex | None = None
) -> list[ChunkDraft]:
    """A draft for each range, in order; a range begins and ends inside paragraphs."""
    leaves = leaves or LeafIndex.from_tree(tree)
    return [_build_draft(tree, leaves, start, end) for start, end in ranges]


def find_enclosing_nodes(root: TreeNode, start: int, end: int) -> list[TreeNode]:
    """The nodes that hold the whole range, outermost first."""
    enclosing = [root]
    while enclosing[-1].children:
        children = enclosing[-1].children
        index = bisect_right(children, start, key=lambda node: node.start) - 1
        if index < 0 or children[index].end < end:
            break
        enclosing.append(children[index])
    return enclosing


def _build_draft(tree: DocumentTree, leaves: LeafIndex, start: int, end: int) -> ChunkDraft:
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
    )

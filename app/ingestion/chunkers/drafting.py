"""Ranges of the stored text into chunk drafts: text, headings above, pages and place in the tree."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, TreeNode


@dataclass(frozen=True, slots=True)
class Leaves:
    """A tree's paragraphs in reading order, found by the range of text that they touch."""

    nodes: list[TreeNode]
    starts: list[int]

    @classmethod
    def of(cls, tree: DocumentTree) -> Self:
        """All of a tree."""
        nodes = leaves_of(tree.root)
        return cls(nodes, [node.start for node in nodes])

    def touched(self, start: int, end: int) -> list[TreeNode]:
        """Those that share a character with the range."""
        first = bisect_right(self.starts, start) - 1
        if first < 0 or self.nodes[first].end <= start:
            first += 1
        return self.nodes[first : bisect_left(self.starts, end)]


def leaves_of(root: TreeNode) -> list[TreeNode]:
    """A node's paragraphs in reading order."""
    found: list[TreeNode] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.kind is NodeKind.PARAGRAPH:
            found.append(node)
        else:
            waiting.extend(reversed(node.children))
    return found


def drafts_of(tree: DocumentTree, ranges: Iterable[tuple[int, int]], leaves: Leaves | None = None) -> list[ChunkDraft]:
    """A draft for each range, in order; a range begins and ends inside paragraphs."""
    leaves = leaves or Leaves.of(tree)
    return [_draft(tree, leaves, start, end) for start, end in ranges]


def holders_of(root: TreeNode, start: int, end: int) -> list[TreeNode]:
    """The nodes that hold the whole range, outermost first."""
    holders = [root]
    while holders[-1].children:
        children = holders[-1].children
        index = bisect_right(children, start, key=lambda node: node.start) - 1
        if index < 0 or children[index].end < end:
            break
        holders.append(children[index])
    return holders


def _draft(tree: DocumentTree, leaves: Leaves, start: int, end: int) -> ChunkDraft:
    touched = leaves.touched(start, end)
    firsts = [leaf.page for leaf in touched if leaf.page is not None]
    lasts = [leaf.page_end for leaf in touched if leaf.page_end is not None]
    holders = holders_of(tree.root, start, end)
    return ChunkDraft(
        text=tree.text[start:end],
        start=start,
        end=end,
        section_titles=tuple(node.title for node in holders if node.kind is NodeKind.SECTION and node.title),
        page=min(firsts, default=None),
        page_end=max(lasts, default=None),
        slide=touched[0].slide,
        node_path=holders[-1].path,
    )

"""Regions of a tree: groups of paragraphs that may share a chunk."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

from app.ingestion.chunkers.toolkit.drafts import collect_leaves
from app.ingestion.types import BlockKind, NodeKind, TreeNode

STANDALONE_KINDS = frozenset({BlockKind.RECORD, BlockKind.IMAGE})
"""Kinds of blocks that each become a separate chunk."""


def has_page_regions(root: TreeNode, pages: bool | None) -> bool:
    """Return whether no chunk may cross a page.

    Args:
        root: Root of the tree.
        pages: Option of the chunker. None is true for a document without headings.
    """
    if pages is not None:
        return pages
    return all(leaf.block is not BlockKind.HEADING for leaf in collect_leaves(root))


def find_section_regions(root: TreeNode, *, pages: bool = False) -> list[list[TreeNode]]:
    """Find the regions of a tree: the heading and the direct paragraphs of each section.

    A heading without paragraphs is left out if a section below it has text: the chunks below have the heading in
    ``section_titles``. A section that contains only headings is one region with all sections below it. A record or an
    image is a separate region.

    Args:
        root: Root of the tree.
        pages: Whether a region also ends with its page.

    Returns:
        The paragraph nodes of each region, in reading order.
    """
    body_starts = [leaf.start for leaf in collect_leaves(root) if leaf.block is not BlockKind.HEADING]
    regions: list[list[TreeNode]] = []
    pending = [root]
    while pending:
        node = pending.pop()
        has_body = bisect_left(body_starts, node.start) < bisect_left(body_starts, node.end)
        if node.kind is NodeKind.SECTION and not has_body:
            regions.append(collect_leaves(node))
            continue
        pending += [child for child in node.children if child.kind is NodeKind.SECTION]
        for kind, group in groupby(node.children, key=lambda child: child.kind):
            group_leaves = list(group)
            if kind is NodeKind.PARAGRAPH and any(leaf.block is not BlockKind.HEADING for leaf in group_leaves):
                regions.append(group_leaves)
    return isolate_records(sorted(regions, key=lambda leaves: leaves[0].start), pages=pages)


def isolate_records(regions: Sequence[Sequence[TreeNode]], *, pages: bool = False) -> list[list[TreeNode]]:
    """Split regions so that each record and each image is a separate region.

    Args:
        regions: Groups of paragraph nodes.
        pages: Whether a region also ends with its page.

    Returns:
        The regions in the same order. Parts between two records, images or pages that contain only headings are left
        out, unless the whole region contains only headings.
    """
    return [part for region in regions for part in _split_region(region, pages=pages)]


def _split_region(leaves: Sequence[TreeNode], *, pages: bool) -> list[list[TreeNode]]:
    parts: list[list[TreeNode]] = [[]]
    for leaf in leaves:
        if leaf.block in STANDALONE_KINDS:
            parts += [[leaf], []]
        elif pages and parts[-1] and parts[-1][-1].page != leaf.page:
            parts.append([leaf])
        else:
            parts[-1].append(leaf)
    parts = [part for part in parts if part]
    bodies = [part for part in parts if any(leaf.block is not BlockKind.HEADING for leaf in part)]
    return bodies or parts

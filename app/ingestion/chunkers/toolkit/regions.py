"""Which paragraphs may share a chunk: those of one section, and a record or a picture with nothing."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

from app.ingestion.chunkers.toolkit.drafts import collect_leaves
from app.ingestion.types import BlockKind, NodeKind, TreeNode

STANDALONE_KINDS = frozenset({BlockKind.RECORD, BlockKind.IMAGE})
"""Each is a chunk of its own."""


def find_section_regions(root: TreeNode) -> list[list[TreeNode]]:
    """The paragraphs of each section in reading order: its heading with its own text, without the sections below it.

    A heading with no text of its own before the first section below is left out: the chunks below carry it in
    ``section_titles``. A section that holds nothing but headings is one region with all that is below it.
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
    return isolate_records(sorted(regions, key=lambda leaves: leaves[0].start))


def isolate_records(regions: Sequence[Sequence[TreeNode]]) -> list[list[TreeNode]]:
    """A record or a picture is a region of its own; what stands between two is another, but for headings alone."""
    return [part for region in regions for part in _split_region(region)]


def _split_region(leaves: Sequence[TreeNode]) -> list[list[TreeNode]]:
    parts: list[list[TreeNode]] = [[]]
    for leaf in leaves:
        if leaf.block in STANDALONE_KINDS:
            parts += [[leaf], []]
        else:
            parts[-1].append(leaf)
    if len(parts) == 1:
        return parts
    return [part for part in parts if any(leaf.block is not BlockKind.HEADING for leaf in part)]

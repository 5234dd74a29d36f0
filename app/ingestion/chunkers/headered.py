"""The headered chunker: packs as the recursive one does, but only inside one section."""

from bisect import bisect_left
from itertools import groupby

from app.ingestion.chunkers.packing import ChunkOptions, leaves_of, pack_regions
from app.ingestion.chunkers.splitting import TokenCounter
from app.ingestion.types import BlockKind, ChunkDraft, DocumentTree, NodeKind, TreeNode


def chunk(tree: DocumentTree, options: ChunkOptions, count_tokens: TokenCounter) -> list[ChunkDraft]:
    """Chunks of one section each: its heading with its own text, without the sections below it.

    A heading with no text of its own before the first section below makes no chunk (the chunks below carry it in
    ``section_titles``); a section that holds nothing but headings is one region with all that is below it.
    """
    return pack_regions(tree, _regions(tree.root), options, count_tokens)


def _regions(root: TreeNode) -> list[list[TreeNode]]:
    bodies = [leaf.start for leaf in leaves_of(root) if leaf.block is not BlockKind.HEADING]
    regions: list[list[TreeNode]] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        has_body = bisect_left(bodies, node.start) < bisect_left(bodies, node.end)
        if node.kind is NodeKind.SECTION and not has_body:
            regions.append(leaves_of(node))
            continue
        waiting += [child for child in node.children if child.kind is NodeKind.SECTION]
        for kind, run in groupby(node.children, key=lambda child: child.kind):
            own = list(run)
            if kind is NodeKind.PARAGRAPH and any(leaf.block is not BlockKind.HEADING for leaf in own):
                regions.append(own)
    return sorted(regions, key=lambda leaves: leaves[0].start)

"""Groups of pieces into topics: nodes of the tree, each the parent of the chunks it is cut into."""

from collections.abc import Sequence
from dataclasses import replace

from app.ingestion.chunkers.spec import ChunkerOutput, ChunkSizes, TokenCounter
from app.ingestion.chunkers.toolkit.drafts import LeafIndex, build_drafts, find_enclosing_nodes
from app.ingestion.chunkers.toolkit.packer import pack_pieces
from app.ingestion.chunkers.toolkit.regions import STANDALONE_KINDS
from app.ingestion.chunkers.toolkit.splitter import Piece
from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, TreeNode


def pack_topics(
    tree: DocumentTree, groups: Sequence[Sequence[Piece]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> ChunkerOutput:
    """The chunks of each group in turn, which name its topic as their node; a record or a picture is no topic.

    A chunk's parent is the node it names, so that it is found from the stored path alone. Topics come behind the other
    children of their section, so that the paths, and with them the ids, of all other nodes are the same without them.
    """
    leaves = LeafIndex.from_tree(tree)
    drafts: list[ChunkDraft] = []
    topics: list[TreeNode] = []
    last_indexes: dict[tuple[int, ...], int] = {}
    for group, ranges in zip(groups, pack_pieces(tree.text, groups, sizes, count_tokens), strict=True):
        start, end = group[0].start, group[-1].end
        overlapping = leaves.find_overlapping(start, end)
        group_drafts = build_drafts(tree, ranges, leaves)
        if overlapping[0].block in STANDALONE_KINDS:
            drafts += group_drafts
            continue
        section = [
            n for n in find_enclosing_nodes(tree.root, start, end) if n.kind in (NodeKind.DOCUMENT, NodeKind.SECTION)
        ][-1]
        index = last_indexes[section.path] = last_indexes.get(section.path, len(section.children) - 1) + 1
        topic = TreeNode(NodeKind.TOPIC, 0, start, end, path=(*section.path, index))
        topic.page = min((leaf.page for leaf in overlapping if leaf.page is not None), default=None)
        topic.page_end = max((leaf.page_end for leaf in overlapping if leaf.page_end is not None), default=None)
        topic.slide, topic.sheet = overlapping[0].slide, overlapping[0].sheet
        topics.append(topic)
        drafts += [replace(draft, node_path=topic.path) for draft in group_drafts]
    return ChunkerOutput(drafts, topics)

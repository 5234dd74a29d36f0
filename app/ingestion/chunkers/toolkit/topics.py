"""Construction of topic nodes from groups of pieces, with the chunks of each topic."""

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
    """Divide groups of pieces into chunks, and build a topic node for each group.

    The chunks of a group name its topic in ``node_path``. A record or an image gets no topic. Topics are the last
    children of their section, so the paths and ids of all other nodes do not depend on them.

    Args:
        tree: Tree of the document.
        groups: Pieces of each topic, in reading order, each group inside one section.
        sizes: Sizes of the chunks.
        count_tokens: Function that counts tokens, usually ``ChunkTools.count_tokens``.

    Returns:
        The chunks and the topics.
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

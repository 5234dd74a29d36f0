"""Groups of pieces into topics: nodes of the tree, each the parent of the chunks it is cut into."""

from collections.abc import Sequence
from dataclasses import replace

from app.ingestion.chunkers.drafting import Leaves, drafts_of, holders_of
from app.ingestion.chunkers.packing import pack_pieces
from app.ingestion.chunkers.regions import ALONE
from app.ingestion.chunkers.spec import Chunked, ChunkSizes
from app.ingestion.chunkers.splitting import Piece, TokenCounter
from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, TreeNode


def pack_topics(
    tree: DocumentTree, groups: Sequence[Sequence[Piece]], sizes: ChunkSizes, count_tokens: TokenCounter
) -> Chunked:
    """The chunks of each group in turn, which name its topic as their node; a record or a picture is no topic.

    A chunk's parent is the node it names, so that it is found from the stored path alone. Topics come behind the other
    children of their section, so that the paths, and with them the ids, of all other nodes are the same without them.
    """
    leaves = Leaves.of(tree)
    drafts: list[ChunkDraft] = []
    topics: list[TreeNode] = []
    made: dict[tuple[int, ...], int] = {}
    for group, ranges in zip(groups, pack_pieces(tree.text, groups, sizes, count_tokens), strict=True):
        start, end = group[0].start, group[-1].end
        touched = leaves.touched(start, end)
        found = drafts_of(tree, ranges, leaves)
        if touched[0].block in ALONE:
            drafts += found
            continue
        section = [n for n in holders_of(tree.root, start, end) if n.kind in (NodeKind.DOCUMENT, NodeKind.SECTION)][-1]
        index = made[section.path] = made.get(section.path, len(section.children) - 1) + 1
        topic = TreeNode(NodeKind.TOPIC, 0, start, end, path=(*section.path, index))
        topic.page = min((leaf.page for leaf in touched if leaf.page is not None), default=None)
        topic.page_end = max((leaf.page_end for leaf in touched if leaf.page_end is not None), default=None)
        topic.slide, topic.sheet = touched[0].slide, touched[0].sheet
        topics.append(topic)
        drafts += [replace(draft, node_path=topic.path) for draft in found]
    return Chunked(drafts, topics)

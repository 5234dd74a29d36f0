"""The document tree as it was stored, read back from its rows: what indexing anew begins with instead of the file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.documents.types import build_node_id
from app.ingestion.chunkers.toolkit.drafts import LeafIndex
from app.ingestion.title_limits import split_title
from app.ingestion.types import BlockKind, DocumentTree, NodeKind, TreeNode

# What a chunker adds to the tree that the parser's blocks have made.
CHUNKER_NODE_KINDS = frozenset({NodeKind.SENTENCE, NodeKind.TOPIC})


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A row of the tree."""

    id: UUID
    parent_id: UUID | None
    ordinal: int
    kind: NodeKind
    level: int
    title: str | None
    start: int
    end: int
    page: int | None
    page_end: int | None
    slide: int | None
    block: BlockKind | None


@dataclass(frozen=True, slots=True)
class ImageRange:
    """A range of the stored text that stands for a picture of the document."""

    start: int
    end: int
    image_number: int
    media_type: str


def restore_tree(text: str, nodes: Sequence[StoredNode]) -> DocumentTree:
    """The tree of a stored text as the parser's blocks have made it, without what chunkers have added.

    ``nodes`` come in their order, parents before children. Sheets and the numbers of pictures are not stored with it:
    a sheet is a section by itself, and for pictures there is ``assign_images``.
    """
    nodes_by_id: dict[UUID, TreeNode] = {}
    root: TreeNode | None = None
    for row in nodes:
        if row.kind in CHUNKER_NODE_KINDS:
            continue
        parent = None if row.parent_id is None else nodes_by_id[row.parent_id]
        node = TreeNode(row.kind, row.level, row.start, row.end, block=row.block)
        node.title = row.title and split_title(row.title)[0]  # older versions stored titles of any length
        node.page, node.page_end, node.slide = row.page, row.page_end, row.slide
        if parent is None:
            root = node
        else:
            node.path = (*parent.path, len(parent.children))
            parent.children.append(node)
        nodes_by_id[row.id] = node
    if root is None:
        raise ValueError("a stored tree has a root")
    return DocumentTree(text, root)


def assign_images(tree: DocumentTree, image_ranges: Iterable[ImageRange]) -> None:
    """Give its paragraphs the pictures that they stand for."""
    leaves = LeafIndex.from_tree(tree)
    for image_range in image_ranges:
        for leaf in leaves.find_overlapping(image_range.start, image_range.end):
            if leaf.block is BlockKind.IMAGE:
                leaf.image_index = image_range.image_number


def assign_topic_paths(
    document_id: UUID, version: int, topics: Sequence[TreeNode], stored: Sequence[StoredNode]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Places for topics beside those that another search index's chunks name: new paths by the chunker's own.

    A node's id is made of its path, so that no two may share one; where the same topic is there already, it is that.
    """
    stored_topics = {row.id: row for row in stored if row.kind is NodeKind.TOPIC}
    new_paths: dict[tuple[int, ...], tuple[int, ...]] = {}
    used_paths: set[tuple[int, ...]] = set()
    for topic in topics:
        path = topic.path
        while path in used_paths or _is_different_topic(
            topic, stored_topics.get(build_node_id(document_id, version, path))
        ):
            path = (*path[:-1], path[-1] + 1)
        used_paths.add(path)
        new_paths[topic.path] = path
    return new_paths


def _is_different_topic(topic: TreeNode, row: StoredNode | None) -> bool:
    return row is not None and (row.start, row.end) != (topic.start, topic.end)

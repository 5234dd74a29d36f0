"""Restore the document tree from its stored rows, so that a reindex need not parse the file again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.documents.source_map import SourceMap
from app.documents.types import build_node_id
from app.ingestion.chunkers.toolkit.drafts import LeafIndex
from app.ingestion.title_limits import split_title
from app.ingestion.types import BlockKind, DocumentTree, NodeKind, TreeNode

CHUNKER_NODE_KINDS = frozenset({NodeKind.SENTENCE, NodeKind.TOPIC})
"""Kinds of nodes that chunkers add to the tree; all other nodes come from the blocks of the parser."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """Row of a node of a stored document tree."""

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
    """Range of the stored text that represents an image of the document."""

    start: int
    end: int
    image_number: int
    media_type: str


def restore_tree(
    text: str,
    nodes: Sequence[StoredNode],
    *,
    source_map: SourceMap | None = None,
    place_map: SourceMap | None = None,
) -> DocumentTree:
    """Restore a tree without the nodes that chunkers added.

    Sheet numbers and image numbers are not stored with the nodes. Sheets do not need them, because each one is a
    separate section. ``assign_images`` restores the image numbers.

    Args:
        text: Stored text of the document.
        nodes: Rows of the nodes, parents before children.
        source_map: Position of the text in the file.
        place_map: Lines or rows of the file that have the text.

    Returns:
        The text with its tree.
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
    return DocumentTree(text, root, source_map=source_map, place_map=place_map)


def assign_images(tree: DocumentTree, image_ranges: Iterable[ImageRange]) -> None:
    """Set the image number of each paragraph that represents an image.

    Args:
        tree: Restored tree, which is changed in place.
        image_ranges: Ranges of the text with the numbers of their images.
    """
    leaves = LeafIndex.from_tree(tree)
    for image_range in image_ranges:
        for leaf in leaves.find_overlapping(image_range.start, image_range.end):
            if leaf.block is BlockKind.IMAGE:
                leaf.image_index = image_range.image_number


def assign_topic_paths(
    document_id: UUID, version: int, topics: Sequence[TreeNode], stored: Sequence[StoredNode]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Assign paths to new topics that do not collide with stored topics, which the chunks of another generation use.

    The id of a node depends on its path, so two topics cannot share a path. A new topic with the same range as a stored
    topic reuses its path.

    Args:
        document_id: The document.
        version: Its version.
        topics: New topics, with the paths of the chunker.
        stored: Stored nodes of the document.

    Returns:
        The assigned paths, by the path of the chunker.
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

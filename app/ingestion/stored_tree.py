"""The document tree as it was stored, read back from its rows: what indexing anew begins with instead of the file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.documents.types import node_id
from app.ingestion.chunkers.drafting import Leaves
from app.ingestion.titles import split_title
from app.ingestion.types import BlockKind, DocumentTree, NodeKind, TreeNode

# What a chunker adds to the tree that the parser's blocks have made.
OF_CHUNKERS = frozenset({NodeKind.SENTENCE, NodeKind.TOPIC})


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
class ShownPicture:
    """A range of the stored text that stands for a picture of the document."""

    start: int
    end: int
    number: int
    media_type: str


def stored_tree(text: str, nodes: Sequence[StoredNode]) -> DocumentTree:
    """The tree of a stored text as the parser's blocks have made it, without what chunkers have added.

    ``nodes`` come in their order, parents before children. Sheets and the numbers of pictures are not stored with it:
    a sheet is a section by itself, and for pictures there is ``name_pictures``.
    """
    made: dict[UUID, TreeNode] = {}
    root: TreeNode | None = None
    for row in nodes:
        if row.kind in OF_CHUNKERS:
            continue
        parent = None if row.parent_id is None else made[row.parent_id]
        node = TreeNode(row.kind, row.level, row.start, row.end, block=row.block)
        node.title = row.title and split_title(row.title)[0]  # older versions stored titles of any length
        node.page, node.page_end, node.slide = row.page, row.page_end, row.slide
        if parent is None:
            root = node
        else:
            node.path = (*parent.path, len(parent.children))
            parent.children.append(node)
        made[row.id] = node
    if root is None:
        raise ValueError("a stored tree has a root")
    return DocumentTree(text, root)


def name_pictures(tree: DocumentTree, shown: Iterable[ShownPicture]) -> None:
    """Give its paragraphs the pictures that they stand for."""
    leaves = Leaves.of(tree)
    for one in shown:
        for leaf in leaves.touched(one.start, one.end):
            if leaf.block is BlockKind.PICTURE:
                leaf.picture = one.number


def settle_topics(
    document_id: UUID, version: int, topics: Sequence[TreeNode], stored: Sequence[StoredNode]
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Places for topics beside those that another search index's chunks name: new paths by the chunker's own.

    A node's id is made of its path, so that no two may share one; where the same topic is there already, it is that.
    """
    known = {row.id: row for row in stored if row.kind is NodeKind.TOPIC}
    places: dict[tuple[int, ...], tuple[int, ...]] = {}
    taken: set[tuple[int, ...]] = set()
    for topic in topics:
        path = topic.path
        while path in taken or _is_another(topic, known.get(node_id(document_id, version, path))):
            path = (*path[:-1], path[-1] + 1)
        taken.add(path)
        places[topic.path] = path
    return places


def _is_another(topic: TreeNode, row: StoredNode | None) -> bool:
    return row is not None and (row.start, row.end) != (topic.start, topic.end)

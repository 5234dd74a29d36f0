"""A tree read from its rows equals the stored tree, for generated documents and for real files in the database."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.documents.types import DocumentFields, build_node_id
from app.ingestion.chunkers import CHUNKERS, ChunkTools
from app.ingestion.chunking import chunk_document
from app.ingestion.reindex.repository import RebuildingRepository, StoredDocument
from app.ingestion.reindex.stored_tree import ImageRange, StoredNode, assign_images, assign_topic_paths, restore_tree
from app.ingestion.tree import PROSE_KINDS, add_sentences, build_tree, walk_nodes
from app.ingestion.types import Block, BlockKind, DocumentTree, NodeKind, ParsedDocument, TreeNode
from app.knowledge_bases.types import Chunking, NewKnowledgeBase
from tests.ingestion.documents import random_document, words
from tests.ingestion.workshop import Workshop

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    ROOT / "samples" / "handbook.pdf",
    ROOT / "samples" / "product-tour.pptx",
    *(ROOT / "tests" / "samples" / name for name in ("notes.md", "page.html", "two_columns.pdf", "workbook.xlsx")),
]
DOCUMENT = UUID(int=7)


def rows_of(tree: DocumentTree) -> list[StoredNode]:
    """Return the rows of a tree as the database has them."""
    ids = {node.path: build_node_id(DOCUMENT, 1, node.path) for node in walk_nodes(tree.root)}
    return [
        StoredNode(
            ids[node.path], ids[node.path[:-1]] if node.path else None, ordinal, node.kind, node.level, node.title,
            node.start, node.end, node.page, node.page_end, node.slide, node.block,
        )
        for ordinal, node in enumerate(walk_nodes(tree.root))
    ]  # fmt: skip


def as_stored(tree: DocumentTree) -> DocumentTree:
    """Return a tree without the parts that are not stored: lines have a separate table, and sheets are sections."""
    for node in walk_nodes(tree.root):
        node.sheet = node.image_index = None
    return DocumentTree(tree.text, tree.root)


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_restore_tree_equals_stored_tree(seed: int, slides: bool) -> None:
    parsed = random_document(seed, slides=slides)
    tree = build_tree(parsed)
    add_sentences(tree)
    assert restore_tree(tree.text, rows_of(tree)) == as_stored(build_tree(parsed))


def test_restore_tree_names_images_by_place() -> None:
    blocks = [Block(BlockKind.PARAGRAPH, "Before."), Block(BlockKind.IMAGE, "A gull.", image_index=3)]
    tree = build_tree(ParsedDocument(blocks))
    read = restore_tree(tree.text, rows_of(tree))
    assign_images(read, [ImageRange(9, 12, 3, "image/png"), ImageRange(0, 4, 5, "image/png")])
    assert [leaf.image_index for leaf in read.root.children] == [None, 3]


def topic(path: tuple[int, ...], start: int, end: int) -> TreeNode:
    return TreeNode(NodeKind.TOPIC, 0, start, end, path=path)


@pytest.mark.parametrize(
    ("there", "wanted", "places"),
    [
        ([], [topic((2,), 0, 5), topic((3,), 5, 9)], {(2,): (2,), (3,): (3,)}),
        ([topic((2,), 0, 5)], [topic((2,), 0, 5), topic((3,), 5, 9)], {(2,): (2,), (3,): (3,)}),
        ([topic((2,), 0, 9)], [topic((2,), 0, 5), topic((3,), 5, 9)], {(2,): (3,), (3,): (4,)}),
        ([topic((2,), 0, 4), topic((3,), 4, 9)], [topic((2,), 0, 5), topic((3,), 5, 9)], {(2,): (4,), (3,): (5,)}),
        ([topic((0, 2), 0, 4)], [topic((0, 2), 0, 5), topic((1, 2), 6, 9)], {(0, 2): (0, 3), (1, 2): (1, 2)}),
    ],
)  # fmt: skip
def test_assign_topic_paths_gives_separate_places(
    there: Sequence[TreeNode], wanted: Sequence[TreeNode], places: dict[Any, Any]
) -> None:
    rows = [
        StoredNode(
            build_node_id(DOCUMENT, 1, one.path), None, 0, one.kind, 0, None, one.start, one.end, None, None, None, None
        )
        for one in there
    ]
    assert assign_topic_paths(DOCUMENT, 1, wanted, rows) == places


async def read_back(workshop: Workshop, services: TenantServices, kb: str, document_id: UUID) -> StoredDocument:
    async with workshop.resources.database.transaction(services.principal.tenant_id, snapshot=True) as session:
        found = await services.knowledge_bases.find_in_session(session, kb)
        stored = await RebuildingRepository(session, services.principal.tenant_id, found.row.id).load_document(
            document_id
        )
    assert stored is not None
    return stored


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
async def test_restore_tree_of_real_files_gives_same_chunks(workshop: Workshop, file: Path) -> None:
    """The chunker that adds to the tree has stored it; any chunker gives the same chunks from it."""
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase("semantic", chunking=Chunking("semantic", 64, 16)))

    async def body() -> AsyncIterator[bytes]:
        yield f'--b\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'.encode()
        yield file.read_bytes() + b"\r\n--b--\r\n"

    uploaded = await services.uploads.upload("semantic", body(), b"b", lambda _: DocumentFields())
    await workshop.ingest(uploaded.document)
    stored = await read_back(workshop, services, "semantic", uploaded.document.id)
    parsed = await workshop.pipeline.parser.pool.parse(file, uploaded.document.media_type)
    has_prose = any(block.kind in PROSE_KINDS for block in parsed.blocks)
    assert {node.kind for node in stored.nodes} == set(NodeKind) - (set() if has_prose else {NodeKind.SENTENCE})
    assert restore_tree(stored.text, stored.nodes) == as_stored(build_tree(parsed))
    assert stored.has_provided_chunks is False
    tools = ChunkTools(words, never, 200)
    for name in sorted(CHUNKERS.keys() - {"semantic"}):
        chunking = Chunking(name, 40, 10)
        made = chunk_document(restore_tree(stored.text, stored.nodes), chunking, tools)
        assert made == chunk_document(build_tree(parsed), chunking, tools), name


def never(texts: Sequence[str]) -> Any:
    raise AssertionError("no other chunker embeds")

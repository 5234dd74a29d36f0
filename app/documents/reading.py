"""Read what ingestion made of a document: its tree, its nodes and its chunks, of the live version alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from app.db.models.tenant_data import Chunk, Document, Node
from app.db.session import TenantDatabase
from app.documents.finding import find_readable
from app.documents.line_boxes import MOST_BOXES, LineBoxes, boxes_within
from app.documents.node_table import NodeTable
from app.documents.offsets import Offsets, utf16_offsets
from app.documents.reading_repository import ReadingRepository
from app.documents.types import ChunkNotFound, NodeNotFound
from app.errors import TooMany, Unavailable
from app.knowledge_bases.service import KnowledgeBaseService
from app.tenant_places import TenantPlaces

SMALL_NODES = 2_000
SMALL_BYTES = 256 * 1024
TREES_AT_ONCE = 2
TREES_AT_ONCE_A_TENANT = 1
TREE_WAIT_SECONDS = 30.0


class TooManyTrees(TooMany):
    """This tenant reads as many large document trees as it may at a time; try again when one has been read."""

    code = "too_many_trees"


class TreesBusy(Unavailable):
    """The service sends as many large document trees as it can at a time; try again later."""

    code = "trees_busy"


def tree_places() -> TenantPlaces:
    """Create the places of one process for large trees: each takes memory until its reader has it."""
    return TenantPlaces(TREES_AT_ONCE, TREES_AT_ONCE_A_TENANT, TREE_WAIT_SECONDS, TooManyTrees, TreesBusy)


@dataclass(frozen=True, slots=True)
class TreeView:
    """All nodes, and the text that they are ranges of."""

    document: Document
    nodes: NodeTable
    text: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its text, where that stands, the nodes above it from the root down, and those right below it."""

    node: Node
    ancestors: Sequence[Node]
    children: Sequence[Node]
    text: str
    places: LineBoxes
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class ChunksView:
    """Some chunks of a document, in order."""

    document: Document
    chunks: Sequence[Chunk]
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A chunk of a document, and where its text stands."""

    document: Document
    chunk: Chunk
    places: LineBoxes
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class _Source:
    """A document, as one moment shows it, and where to read about it."""

    document: Document
    index_id: UUID
    repository: ReadingRepository

    async def lineage(self, node_id: UUID) -> Sequence[Node]:
        """Raises NodeNotFound."""
        found = await self.repository.lineage(self.document.id, node_id)
        if not found:
            raise NodeNotFound
        return found

    async def places(self, part: Node | Chunk) -> LineBoxes:
        """Where the lines of this part's text stand."""
        if part.page is None:
            return LineBoxes()
        last = part.page if part.page_end is None else part.page_end
        pages = await self.repository.pages(self.document.id, first=part.page, last=last, lines=MOST_BOXES)
        return boxes_within(pages, start=part.start_offset, end=part.end_offset)

    async def offsets(self, *, utf16: bool, end: int | None = None) -> Offsets:
        """For places up to ``end``; only a caller that counts as UTF-16 does costs the text."""
        return utf16_offsets(await self.repository.stored_text(self.document.id, end=end)) if utf16 else Offsets()


@dataclass(frozen=True, slots=True)
class ReadingService:
    """What a tenant can see of its ingested documents; with ``utf16`` a view's offsets count as browsers do."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    trees: TenantPlaces

    @asynccontextmanager
    async def _open(self, reference: str, document_id: UUID) -> AsyncIterator[_Source]:
        """All reads inside see the same version, text and nodes. Raises KnowledgeBaseNotFound, DocumentNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in(session, reference)
            reader = self.knowledge_bases.principal.user_id
            document, home = await find_readable(session, kb, document_id, reader=reader)
            yield _Source(document, home.index.id, ReadingRepository(session, document.tenant_id))

    @asynccontextmanager
    async def tree(self, reference: str, document_id: UUID, *, utf16: bool) -> AsyncIterator[TreeView]:
        """Yield the tree; it has no nodes before the first version is ready. A large tree holds a place meanwhile.

        Raises DocumentNotFound, TooManyTrees, TreesBusy.
        """
        async with self._open(reference, document_id) as source:
            is_small = await source.repository.is_small(document_id, nodes=SMALL_NODES, size=SMALL_BYTES)
            view = await _tree(source, utf16=utf16) if is_small else None
        if view is not None:
            yield view
            return
        async with self.trees.take(self.db.tenant_id):
            async with self._open(reference, document_id) as source:
                view = await _tree(source, utf16=utf16)
            yield view

    async def text(self, reference: str, document_id: UUID) -> tuple[Document, str]:
        """All that was read of it; empty before the first version is ready. Raises DocumentNotFound."""
        async with self._open(reference, document_id) as source:
            return source.document, await source.repository.stored_text(document_id)

    async def node(self, reference: str, document_id: UUID, node_id: UUID, *, utf16: bool) -> NodeView:
        """Raises DocumentNotFound, NodeNotFound."""
        async with self._open(reference, document_id) as source:
            *ancestors, node = await source.lineage(node_id)
            start, end = node.start_offset, node.end_offset
            return NodeView(
                node=node,
                ancestors=ancestors,
                children=await source.repository.children(node),
                text=await source.repository.stored_text(document_id, start=start, end=end),
                places=await source.places(node),
                offsets=await source.offsets(utf16=utf16, end=end),
            )

    async def ancestors(
        self, reference: str, document_id: UUID, node_id: UUID, *, utf16: bool
    ) -> tuple[Sequence[Node], Offsets]:
        """From the root to the parent; none above the root. Raises DocumentNotFound, NodeNotFound."""
        async with self._open(reference, document_id) as source:
            *ancestors, _ = await source.lineage(node_id)
            return ancestors, await source.offsets(utf16=utf16)

    async def chunks(
        self, reference: str, document_id: UUID, *, below: UUID | None, after: int, limit: int, utf16: bool
    ) -> ChunksView:
        """Chunks behind chunk_index ``after``; with ``below`` those that hold some of this node's text, or all of it.

        Raises DocumentNotFound, NodeNotFound.
        """
        async with self._open(reference, document_id) as source:
            node = None if below is None else (await source.lineage(below))[-1]
            chunks = await source.repository.chunks(
                source.document, source.index_id, below=node, after=after, limit=limit
            )
            last = max((chunk.end_offset for chunk in chunks), default=0)
            return ChunksView(source.document, chunks, await source.offsets(utf16=utf16, end=last))

    async def chunk(self, reference: str, document_id: UUID, chunk_id: UUID, *, utf16: bool) -> ChunkView:
        """That one. Raises DocumentNotFound, ChunkNotFound."""
        async with self._open(reference, document_id) as source:
            chunk = await source.repository.chunk(source.document, source.index_id, chunk_id)
            if chunk is None:
                raise ChunkNotFound
            return ChunkView(
                document=source.document,
                chunk=chunk,
                places=await source.places(chunk),
                offsets=await source.offsets(utf16=utf16, end=chunk.end_offset),
            )


async def _tree(source: _Source, *, utf16: bool) -> TreeView:
    nodes = NodeTable()
    async for rows in source.repository.nodes(source.document.id):
        nodes.add(rows)
    text = await source.repository.stored_text(source.document.id)
    return TreeView(source.document, nodes, text, utf16_offsets(text) if utf16 else Offsets())

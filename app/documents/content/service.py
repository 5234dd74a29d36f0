"""Read access to the content of a document's live version: text, tree, nodes and chunks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from app.db.models.tenant_data import ChunkRow, DocumentRow, Node
from app.db.session import TenantDatabase
from app.documents.content.line_boxes import MAX_LINE_BOXES, LineBoxes, select_line_boxes
from app.documents.content.node_table import NodeTable
from app.documents.content.offsets import OffsetConverter, create_utf16_converter
from app.documents.content.repository import ContentRepository
from app.documents.lookup import find_readable_document
from app.documents.types import CHUNKS_TYPE, ChunkNotFound, NodeNotFound, build_chunk_id
from app.errors import TooManyRequestsError, UnavailableError
from app.knowledge_bases.service import KnowledgeBaseService
from app.tenant_slots import TenantSlots

MAX_SMALL_TREE_NODES = 2_000
MAX_SMALL_TREE_BYTES = 256 * 1024
MAX_CONCURRENT_TREES = 2
MAX_CONCURRENT_TREES_PER_TENANT = 1
TREE_WAIT_TIMEOUT_SECONDS = 30.0


class TooManyTrees(TooManyRequestsError):
    """This tenant already reads the maximum number of large document trees. Try again when one of them has ended."""

    code = "too_many_trees"


class TreesBusy(UnavailableError):
    """The service already sends the maximum number of large document trees. Try again later."""

    code = "trees_busy"


def create_tree_slots() -> TenantSlots:
    """Create the limit of one process on parallel large trees. A tree takes memory until its reader has received it."""
    return TenantSlots(
        MAX_CONCURRENT_TREES, MAX_CONCURRENT_TREES_PER_TENANT, TREE_WAIT_TIMEOUT_SECONDS, TooManyTrees, TreesBusy
    )


@dataclass(frozen=True, slots=True)
class TreeView:
    """All nodes of a document, and the text that their offsets refer to."""

    document: DocumentRow
    nodes: NodeTable
    text: str
    offsets: OffsetConverter


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its text and line positions, its ancestors from the root down, and its children."""

    node: Node
    ancestors: Sequence[Node]
    children: Sequence[Node]
    text: str
    line_boxes: LineBoxes
    offsets: OffsetConverter


@dataclass(frozen=True, slots=True)
class ChunkListView:
    """A page of a document's chunks, in reading order."""

    document: DocumentRow
    chunks: Sequence[ChunkRow]
    offsets: OffsetConverter


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A chunk of a document, with the positions of its lines, and the ids of the chunks before and behind it."""

    document: DocumentRow
    chunk: ChunkRow
    line_boxes: LineBoxes
    offsets: OffsetConverter
    previous_id: UUID | None
    next_id: UUID | None


@dataclass(frozen=True, slots=True)
class _DocumentSource:
    """A document in one database snapshot, with its search index and the queries for its content."""

    document: DocumentRow
    index_id: UUID
    repository: ContentRepository

    async def load_lineage(self, node_id: UUID) -> Sequence[Node]:
        """Return the nodes from the root to a node. Raises NodeNotFound."""
        nodes = await self.repository.load_lineage(self.document.id, node_id)
        if not nodes:
            raise NodeNotFound
        return nodes

    async def find_neighbours(self, chunk: ChunkRow) -> tuple[UUID | None, UUID | None]:
        """Return the ids of the chunks before and behind a chunk. Only uploaded chunks need a query."""
        if self.document.media_type == CHUNKS_TYPE:
            return await self.repository.find_neighbours(chunk)
        ordinals = (chunk.ordinal - 1, chunk.ordinal + 1)
        before, behind = (
            build_chunk_id(self.document.id, chunk.version, at) if 0 <= at < self.document.chunk_count else None
            for at in ordinals
        )
        return before, behind

    async def load_line_boxes(self, part: Node | ChunkRow) -> LineBoxes:
        """Return the positions of the lines of a node's or chunk's text."""
        if part.page is None:
            return LineBoxes()
        last = part.page if part.page_end is None else part.page_end
        pages = await self.repository.list_pages(self.document.id, first=part.page, last=last, max_lines=MAX_LINE_BOXES)
        return select_line_boxes(pages, start=part.start_offset, end=part.end_offset)

    async def create_offset_converter(self, *, utf16: bool, end: int | None = None) -> OffsetConverter:
        """Return a converter for offsets up to ``end``. Only UTF-16 offsets require a read of the text."""
        return (
            create_utf16_converter(await self.repository.get_text(self.document.id, end=end))
            if utf16
            else OffsetConverter()
        )


@dataclass(frozen=True, slots=True)
class ContentService:
    """Use cases that read the content of documents.

    With ``utf16``, offsets of a result count UTF-16 units, as browsers do. Without it, offsets count code points.
    """

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService
    tree_slots: TenantSlots

    @asynccontextmanager
    async def _open_document(self, reference: str, document_id: UUID) -> AsyncIterator[_DocumentSource]:
        """Open a snapshot in which all reads see the same version. Raises KnowledgeBaseNotFound, DocumentNotFound."""
        async with self.db.transaction(snapshot=True) as session:
            kb = await self.knowledge_bases.find_in_session(session, reference)
            reader = self.knowledge_bases.principal.user_id
            document, document_kb = await find_readable_document(session, kb, document_id, reader=reader)
            yield _DocumentSource(document, document_kb.index.id, ContentRepository(session, document.tenant_id))

    @asynccontextmanager
    async def read_tree(self, reference: str, document_id: UUID, *, utf16: bool) -> AsyncIterator[TreeView]:
        """Yield the tree of a document. It has no nodes until the first version is ready.

        A large tree occupies a slot until the block ends, because it takes memory until then.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            utf16: Whether offsets count UTF-16 units.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            TooManyTrees: The tenant's slots for large trees stay occupied.
            TreesBusy: All slots for large trees stay occupied.
        """
        async with self._open_document(reference, document_id) as source:
            is_small = await source.repository.is_small_tree(
                document_id, max_nodes=MAX_SMALL_TREE_NODES, max_bytes=MAX_SMALL_TREE_BYTES
            )
            view = await _load_tree(source, utf16=utf16) if is_small else None
        if view is not None:
            yield view
            return
        async with self.tree_slots.acquire(self.db.tenant_id):
            async with self._open_document(reference, document_id) as source:
                view = await _load_tree(source, utf16=utf16)
            yield view

    async def read_text(self, reference: str, document_id: UUID) -> tuple[DocumentRow, str]:
        """Return a document and its whole text. The text is empty until the first version is ready.

        Raises KnowledgeBaseNotFound, DocumentNotFound.
        """
        async with self._open_document(reference, document_id) as source:
            return source.document, await source.repository.get_text(document_id)

    async def get_node(self, reference: str, document_id: UUID, node_id: UUID, *, utf16: bool) -> NodeView:
        """Return one node with its text, line positions, ancestors and children.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            node_id: The node.
            utf16: Whether offsets count UTF-16 units.

        Returns:
            The node.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            NodeNotFound: The live version has no such node.
        """
        async with self._open_document(reference, document_id) as source:
            *ancestors, node = await source.load_lineage(node_id)
            start, end = node.start_offset, node.end_offset
            return NodeView(
                node=node,
                ancestors=ancestors,
                children=await source.repository.list_children(node),
                text=await source.repository.get_text(document_id, start=start, end=end),
                line_boxes=await source.load_line_boxes(node),
                offsets=await source.create_offset_converter(utf16=utf16, end=end),
            )

    async def list_ancestors(
        self, reference: str, document_id: UUID, node_id: UUID, *, utf16: bool
    ) -> tuple[Sequence[Node], OffsetConverter]:
        """Return the ancestors of a node, from the root to the parent, and the offset converter.

        The root has no ancestors. Raises KnowledgeBaseNotFound, DocumentNotFound, NodeNotFound.
        """
        async with self._open_document(reference, document_id) as source:
            *ancestors, _ = await source.load_lineage(node_id)
            return ancestors, await source.create_offset_converter(utf16=utf16)

    async def list_chunks(
        self, reference: str, document_id: UUID, *, node_id: UUID | None, after: int, limit: int, utf16: bool
    ) -> ChunkListView:
        """List chunks of a document in reading order.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            node_id: If given, only chunks that overlap the text of this node are listed.
            after: The ``chunk_index`` of the last chunk of the previous page.
            limit: The maximum number of chunks.
            utf16: Whether offsets count UTF-16 units.

        Returns:
            The chunks.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            NodeNotFound: The live version has no such node.
        """
        async with self._open_document(reference, document_id) as source:
            node = None if node_id is None else (await source.load_lineage(node_id))[-1]
            chunks = await source.repository.list_chunks(
                source.document, source.index_id, node=node, after=after, limit=limit
            )
            last = max((chunk.end_offset for chunk in chunks), default=0)
            return ChunkListView(source.document, chunks, await source.create_offset_converter(utf16=utf16, end=last))

    async def get_chunk(self, reference: str, document_id: UUID, chunk_id: UUID, *, utf16: bool) -> ChunkView:
        """Return one chunk with the positions of its lines.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.
            chunk_id: The chunk.
            utf16: Whether offsets count UTF-16 units.

        Returns:
            The chunk.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
            ChunkNotFound: The live version has no such chunk.
        """
        async with self._open_document(reference, document_id) as source:
            chunk = await source.repository.find_chunk(source.document, source.index_id, chunk_id)
            if chunk is None:
                raise ChunkNotFound
            previous_id, next_id = await source.find_neighbours(chunk)
            return ChunkView(
                document=source.document,
                chunk=chunk,
                line_boxes=await source.load_line_boxes(chunk),
                offsets=await source.create_offset_converter(utf16=utf16, end=chunk.end_offset),
                previous_id=previous_id,
                next_id=next_id,
            )


async def _load_tree(source: _DocumentSource, *, utf16: bool) -> TreeView:
    nodes = NodeTable()
    async for rows in source.repository.iter_nodes(source.document.id):
        nodes.add(rows)
    text = await source.repository.get_text(source.document.id)
    return TreeView(source.document, nodes, text, create_utf16_converter(text) if utf16 else OffsetConverter())

"""Queries for what ingestion made of a document: the live version's text, nodes and chunks."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from sqlalchemy import func, select

from app.db.models.tenant_data import ChunkRow, DocumentPage, DocumentRow, DocumentText, Node
from app.db.session import Session
from app.db.statements import Record, parse_statement

NODE_BATCH_SIZE = 2_000
_IS_SMALL = parse_statement("""
select (select count(*) from (select from node where tenant_id = :t and document_id = :d limit :nodes + 1) n) <= :nodes
   and coalesce((select octet_length(content) from document_text where tenant_id = :t and document_id = :d), 0) <= :size
       as is_small""")
_NODES = parse_statement("""
select id, parent_id, kind, level, title, start_offset, end_offset, page, page_end, slide, block
  from node where tenant_id = :t and document_id = :d order by ordinal""")


class ContentRepository:
    """Reads in one tenant; the document is one that the caller may see."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_chunks(
        self, document: DocumentRow, index_id: UUID, *, node: Node | None, after: int, limit: int
    ) -> list[ChunkRow]:
        """Chunks behind chunk_index ``after`` in order; with ``node`` those that have text of this node in them.

        ``index_id`` is the live search index: others may hold the document as well.
        """
        statement = select(ChunkRow).where(
            ChunkRow.tenant_id == self.tenant_id,
            ChunkRow.kb_id == document.kb_id,
            ChunkRow.document_id == document.id,
            ChunkRow.index_id == index_id,
            ChunkRow.version == document.live_version,
            ChunkRow.ordinal > after,
        )
        if node is not None:
            statement = statement.where(
                ChunkRow.start_offset < node.end_offset, ChunkRow.end_offset > node.start_offset
            )
        return list(await self.session.scalars(statement.order_by(ChunkRow.ordinal).limit(limit)))

    async def find_chunk(self, document: DocumentRow, index_id: UUID, chunk_id: UUID) -> ChunkRow | None:
        """One chunk of the document; ``index_id`` is the live search index, which the primary key begins with."""
        statement = select(ChunkRow).where(
            ChunkRow.tenant_id == self.tenant_id,
            ChunkRow.index_id == index_id,
            ChunkRow.id == chunk_id,
            ChunkRow.kb_id == document.kb_id,
            ChunkRow.document_id == document.id,
            ChunkRow.version == document.live_version,
        )
        return await self.session.scalar(statement)

    async def is_small_tree(self, document_id: UUID, *, max_nodes: int, max_bytes: int) -> bool:
        """Whether the tree has at most so many nodes and the text so many bytes."""
        values = {"t": self.tenant_id, "d": document_id, "nodes": max_nodes, "size": max_bytes}
        row = await self.session.fetch_row(_IS_SMALL, values)
        return row is not None and bool(row["is_small"])

    def iter_nodes(self, document_id: UUID) -> AsyncIterator[Sequence[Record]]:
        """Yield the whole tree in reading order, a batch of nodes at a time."""
        return self.session.fetch_batches(_NODES, {"t": self.tenant_id, "d": document_id}, batch_size=NODE_BATCH_SIZE)

    async def load_lineage(self, document_id: UUID, node_id: UUID) -> list[Node]:
        """From the root down to the node; empty where the document has no such node."""
        query = select(Node.id, Node.parent_id).where(
            Node.tenant_id == self.tenant_id, Node.document_id == document_id, Node.id == node_id
        )
        lineage = query.cte("line", recursive=True)
        lineage = lineage.union(
            select(Node.id, Node.parent_id).where(
                Node.tenant_id == self.tenant_id, Node.document_id == document_id, Node.id == lineage.c.parent_id
            )
        )
        statement = (
            select(Node)
            .join(lineage, Node.id == lineage.c.id)
            .where(Node.tenant_id == self.tenant_id, Node.document_id == document_id)
            .order_by(Node.ordinal)
        )
        return list(await self.session.scalars(statement))

    async def list_children(self, node: Node) -> list[Node]:
        """In reading order."""
        statement = (
            select(Node)
            .where(Node.tenant_id == self.tenant_id, Node.document_id == node.document_id, Node.parent_id == node.id)
            .order_by(Node.ordinal)
        )
        return list(await self.session.scalars(statement))

    async def list_pages(self, document_id: UUID, *, first: int, last: int, max_lines: int) -> list[DocumentPage]:
        """Those pages in order that have lines with a place; no more of them than hold about so many lines."""
        size = func.cardinality(DocumentPage.starts)
        before = func.sum(size).over(order_by=DocumentPage.page) - size
        counted = (
            select(DocumentPage.page, before.label("before"))
            .where(
                DocumentPage.tenant_id == self.tenant_id,
                DocumentPage.document_id == document_id,
                DocumentPage.page.between(first, last),
            )
            .subquery()
        )
        statement = (
            select(DocumentPage)
            .join(counted, DocumentPage.page == counted.c.page)
            .where(
                DocumentPage.tenant_id == self.tenant_id,
                DocumentPage.document_id == document_id,
                counted.c.before < max_lines,
            )
            .order_by(DocumentPage.page)
        )
        return list(await self.session.scalars(statement))

    async def get_text(self, document_id: UUID, *, start: int = 0, end: int | None = None) -> str:
        """The text that the offsets refer to, or a part of it; empty before the first version is ready."""
        content = DocumentText.content
        part = content if end is None else func.substr(content, start + 1, end - start)
        statement = select(part).where(
            DocumentText.tenant_id == self.tenant_id, DocumentText.document_id == document_id
        )
        return await self.session.scalar(statement) or ""

"""Queries for the content of a document's live version: text, nodes, chunks and pages."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

from sqlalchemy import func, select

from app.db.models.tenant_data import ChunkRow, DocumentPage, DocumentRow, DocumentText, Node
from app.db.page_counts import count_selected
from app.db.session import Session
from app.db.statements import Record, parse_statement

NODE_BATCH_SIZE = 2_000
_IS_SMALL = parse_statement("""
select (select count(*) from (select from node where tenant_id = :t and document_id = :d limit :nodes + 1) n) <= :nodes
   and coalesce((select octet_length(content) from document_text where tenant_id = :t and document_id = :d), 0) <= :size
       as is_small""")
_CHUNKS_OF_DOCUMENT = """
select id from chunk
 where tenant_id = :t and kb_id = :kb and document_id = :d and index_id = :i and version = :v"""
_NEIGHBOURS = parse_statement(f"""
select ({_CHUNKS_OF_DOCUMENT} and ordinal < :ordinal order by ordinal desc limit 1) as previous_id,
       ({_CHUNKS_OF_DOCUMENT} and ordinal > :ordinal order by ordinal limit 1) as next_id""")
_NODES = parse_statement("""
select id, parent_id, kind, level, title, start_offset, end_offset, page, page_end, slide, block
  from node where tenant_id = :t and document_id = :d order by ordinal""")


class ContentRepository:
    """Queries for the contents of documents of one tenant. The caller has checked that the document may be read."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_chunks(
        self, document: DocumentRow, index_id: UUID, *, node: Node | None, after: int, limit: int
    ) -> list[ChunkRow]:
        """List chunks of a document in reading order.

        Args:
            document: The document.
            index_id: The live search index. Other search indexes may also contain chunks of the document.
            node: If given, only chunks that overlap the text of this node are listed.
            after: The ``chunk_index`` of the last chunk of the previous page.
            limit: The maximum number of chunks.

        Returns:
            The chunks.
        """
        statement = select(ChunkRow).where(
            ChunkRow.tenant_id == self.tenant_id,
            ChunkRow.kb_id == document.kb_id,
            ChunkRow.document_id == document.id,
            ChunkRow.index_id == index_id,
            ChunkRow.version == document.live_version,
        )
        if node is not None:
            statement = statement.where(
                ChunkRow.start_offset < node.end_offset, ChunkRow.end_offset > node.start_offset
            )
        await count_selected(self.session, limit, statement)
        page = statement.where(ChunkRow.ordinal > after).order_by(ChunkRow.ordinal).limit(limit)
        return list(await self.session.scalars(page))

    async def find_chunk(self, document: DocumentRow, index_id: UUID, chunk_id: UUID) -> ChunkRow | None:
        """Return one chunk of a document.

        Args:
            document: The document.
            index_id: The live search index. The primary key begins with the tenant and the index.
            chunk_id: The chunk.

        Returns:
            The chunk, or None if the live version has no such chunk.
        """
        statement = select(ChunkRow).where(
            ChunkRow.tenant_id == self.tenant_id,
            ChunkRow.index_id == index_id,
            ChunkRow.id == chunk_id,
            ChunkRow.kb_id == document.kb_id,
            ChunkRow.document_id == document.id,
            ChunkRow.version == document.live_version,
        )
        return await self.session.scalar(statement)

    async def find_neighbours(self, chunk: ChunkRow) -> tuple[UUID | None, UUID | None]:
        """Return the ids of the chunks before and behind a chunk in its document. Deleted chunks leave gaps."""
        values = {"t": self.tenant_id, "kb": chunk.kb_id, "d": chunk.document_id, "i": chunk.index_id}
        row = await self.session.fetch_row(_NEIGHBOURS, {**values, "v": chunk.version, "ordinal": chunk.ordinal})
        return (None, None) if row is None else (row["previous_id"], row["next_id"])

    async def is_small_tree(self, document_id: UUID, *, max_nodes: int, max_bytes: int) -> bool:
        """Return whether a document has at most ``max_nodes`` nodes and ``max_bytes`` bytes of text."""
        values = {"t": self.tenant_id, "d": document_id, "nodes": max_nodes, "size": max_bytes}
        row = await self.session.fetch_row(_IS_SMALL, values)
        return row is not None and bool(row["is_small"])

    def iter_nodes(self, document_id: UUID) -> AsyncIterator[Sequence[Record]]:
        """Yield all nodes of a document in reading order, in batches."""
        return self.session.fetch_batches(_NODES, {"t": self.tenant_id, "d": document_id}, batch_size=NODE_BATCH_SIZE)

    async def load_lineage(self, document_id: UUID, node_id: UUID) -> list[Node]:
        """Return the nodes on the path from the root to a node.

        Args:
            document_id: The document.
            node_id: The last node of the path.

        Returns:
            The path, or an empty list if the document has no such node.
        """
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
        """Return the children of a node in reading order."""
        statement = (
            select(Node)
            .where(Node.tenant_id == self.tenant_id, Node.document_id == node.document_id, Node.parent_id == node.id)
            .order_by(Node.ordinal)
        )
        return list(await self.session.scalars(statement))

    async def list_pages(self, document_id: UUID, *, first: int, last: int, max_lines: int) -> list[DocumentPage]:
        """List pages that have text lines with positions, in order.

        Args:
            document_id: The document.
            first: Number of the first page.
            last: Number of the last page.
            max_lines: No page is added after the pages have this number of lines.

        Returns:
            The pages.
        """
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
        """Return the stored text of a document, or a part of it. All offsets of the document refer to this text.

        Args:
            document_id: The document.
            start: Offset of the first character.
            end: Offset after the last character. None reads to the end.

        Returns:
            The text. It is empty until the first version is ready.
        """
        content = DocumentText.content
        part = content if end is None else func.substr(content, start + 1, end - start)
        statement = select(part).where(
            DocumentText.tenant_id == self.tenant_id, DocumentText.document_id == document_id
        )
        return await self.session.scalar(statement) or ""

"""Queries for documents across knowledge bases."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import and_, or_, select, text, tuple_

from app.db.models.search_rows import ChunkLexical
from app.db.models.tenant_data import ChunkRow, DocumentRow, KnowledgeBaseRow
from app.db.page_counts import count_selected
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.scopes import ScopeLevel
from app.filters import CompiledFilter, translate_filter_errors


@dataclass(frozen=True, slots=True)
class ListedChunk:
    """Chunk with its document."""

    chunk: ChunkRow
    document: DocumentRow


class DocumentCatalogRepository:
    """Queries for the documents of one tenant, across knowledge bases.

    The caller restricts the results to the knowledge bases and users that its key may read.
    """

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find_knowledge_base_id(self, document_id: UUID) -> UUID | None:
        """Return the id of the tenant's knowledge base through which a document is read, or None.

        A document of the system tenant is read through the tenant's knowledge base with the same name.
        """
        params = {"tenant": self.tenant_id, "document": document_id}
        row = await self.session.fetch_row(_FIND_KNOWLEDGE_BASE_ID, params)
        return None if row is None else row["id"]

    async def find_chunk_place(self, chunk_id: UUID) -> tuple[UUID, UUID] | None:
        """Return the id of the tenant's knowledge base and of the document of a chunk, or None.

        A chunk of the system tenant is read through the tenant's knowledge base with the same name.
        """
        row = await self.session.fetch_row(_FIND_CHUNK_PLACE, {"tenant": self.tenant_id, "chunk": chunk_id})
        return None if row is None else (row["kb_id"], row["document_id"])

    async def list_chunks(
        self,
        kb_id: UUID,
        index_id: UUID,
        filters: DocumentRowFilters,
        chunk_filter: CompiledFilter,
        *,
        after: tuple[UUID, int] | None,
        limit: int,
    ) -> list[ListedChunk]:
        """List chunks of the live search index of a knowledge base, by the id of their document and their index.

        Args:
            kb_id: The knowledge base.
            index_id: Its live search index.
            filters: Conditions on the documents.
            chunk_filter: Condition on the metadata of the chunks, as searches compare it.
            after: Document and index of the last chunk of the page before.
            limit: The maximum number of chunks.

        Returns:
            The chunks with their documents.

        Raises:
            InvalidInputError: The database rejects the filter.
        """
        statement = apply_filters(select(ChunkRow, DocumentRow), filters).where(
            ChunkRow.tenant_id == self.tenant_id,
            ChunkRow.kb_id == kb_id,
            ChunkRow.index_id == index_id,
            DocumentRow.tenant_id == self.tenant_id,
            DocumentRow.kb_id == kb_id,
            DocumentRow.id == ChunkRow.document_id,
            DocumentRow.live_version == ChunkRow.version,
        )
        if chunk_filter.contains is not None or chunk_filter.path is not None:
            statement = statement.where(
                ChunkLexical.tenant_id == ChunkRow.tenant_id,
                ChunkLexical.index_id == ChunkRow.index_id,
                ChunkLexical.chunk_id == ChunkRow.id,
            )
        if chunk_filter.contains is not None:
            contains = text("chunk_lexical.metadata @> cast(:chunk_contains as jsonb)")
            statement = statement.where(contains.bindparams(chunk_contains=json.dumps(chunk_filter.contains)))
        if chunk_filter.path is not None:
            path = text("chunk_lexical.metadata @@ cast(:chunk_path as jsonpath)")
            statement = statement.where(path.bindparams(chunk_path=chunk_filter.path))
        with translate_filter_errors(loc=("query", "filter")):
            await count_selected(self.session, limit, statement)
        if after is not None:
            # The first condition lets the index begin at the document.
            statement = statement.where(
                ChunkRow.document_id >= after[0], tuple_(ChunkRow.document_id, ChunkRow.ordinal) > after
            )
        statement = statement.order_by(ChunkRow.document_id, ChunkRow.ordinal).limit(limit)
        with translate_filter_errors(loc=("query", "filter")):
            return [ListedChunk(chunk, document) for chunk, document in await self.session.execute(statement)]

    async def list_documents(
        self, *, allowed_kb_ids: Collection[UUID] | None, reader: str | None, before: UUID | None, limit: int
    ) -> list[tuple[DocumentRow, str]]:
        """List documents that have a live version, newest first, each with the name of its knowledge base.

        Args:
            allowed_kb_ids: Only documents in these knowledge bases are listed. None allows all of them.
            reader: The user whose documents, outside of chats, are listed in addition to the tenant's. None adds no
                documents.
            before: Id of the last document of the previous page. None begins with the newest document.
            limit: The maximum number of documents.

        Returns:
            Pairs of document and knowledge base name.
        """
        is_public = DocumentRow.scope_level.in_((ScopeLevel.SHARED, ScopeLevel.TENANT))
        is_own = and_(DocumentRow.scope_level == ScopeLevel.USER, DocumentRow.user_id == reader)
        is_visible = is_public if reader is None else or_(is_public, is_own)
        query = apply_filters(select(DocumentRow, KnowledgeBaseRow.name), DocumentRowFilters()).where(
            DocumentRow.tenant_id == self.tenant_id, DocumentRow.live_version.is_not(None), is_visible
        )
        query = query.join(
            KnowledgeBaseRow,
            and_(KnowledgeBaseRow.tenant_id == DocumentRow.tenant_id, KnowledgeBaseRow.id == DocumentRow.kb_id),
        )
        if allowed_kb_ids is not None:
            query = query.where(DocumentRow.kb_id.in_(allowed_kb_ids))
        if before is not None:
            query = query.where(DocumentRow.id < before)
        # Document ids sort by creation time, so the primary key's index gives the order.
        rows = await self.session.execute(query.order_by(DocumentRow.id.desc()).limit(limit))
        return [(document, name) for document, name in rows]


_FIND_KNOWLEDGE_BASE_ID = parse_statement("""
select k.id from document d
  join knowledge_base h on h.tenant_id = d.tenant_id and h.id = d.kb_id
  join knowledge_base k on k.tenant_id = :tenant::uuid
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where d.tenant_id = any(array[:tenant::uuid, system_tenant()]) and d.id = :document""")
_FIND_CHUNK_PLACE = parse_statement("""
select k.id as kb_id, c.document_id from search_index i
  join chunk c on c.tenant_id = i.tenant_id and c.index_id = i.id and c.id = :chunk
  join knowledge_base h on h.tenant_id = i.tenant_id and h.id = i.kb_id
  join knowledge_base k on k.tenant_id = :tenant::uuid
   and (k.id = h.id or h.tenant_id = system_tenant() and k.name = h.name)
 where i.tenant_id = any(array[:tenant::uuid, system_tenant()]) and i.state = 'live'
   and h.deleted_at is null and k.deleted_at is null""")

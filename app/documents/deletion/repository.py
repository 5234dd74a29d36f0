"""Queries that select, lock and remove documents, and that record the receipt."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select

from app.db.deletion_receipts import DeletedCounts, open_receipt
from app.db.models.tenant_data import DocumentRow
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.batch_size import MAX_BATCH_CHUNKS, take_until_chunks
from app.documents.repository import DocumentRowFilters, apply_filters
from app.documents.scopes import DocumentScope
from app.documents.term_counts import build_count_subtraction
from app.filters import translate_filter_errors
from app.idempotency import delete_stored_responses
from app.ids import decode_id
from app.knowledge_bases.repository import KnowledgeBaseRepository


class DeletionRepository:
    """Queries of deletions in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def lock(
        self, kb_id: UUID, filters: DocumentRowFilters, *, until: datetime | None, limit: int, max_chunks: int
    ) -> tuple[list[UUID], bool]:
        """Lock documents that match the filters until the transaction ends.

        Args:
            kb_id: The knowledge base.
            filters: The conditions on the documents.
            until: Only documents created up to this time match. None matches all.
            limit: The maximum number of documents.
            max_chunks: The documents together have about this number of chunks. At least one document is locked.

        Returns:
            The ids, and whether more documents may match.

        Raises:
            InvalidInputError: The database rejects the filter.
        """
        statement = apply_filters(select(DocumentRow.id, DocumentRow.chunk_count), filters)
        statement = statement.where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == kb_id)
        if until is not None:
            statement = statement.where(DocumentRow.created_at <= until)
        # A fixed order prevents deadlocks between parallel deletions.
        statement = statement.order_by(DocumentRow.id).limit(limit).with_for_update()
        with translate_filter_errors(loc=("query", "filter")):
            rows = (await self.session.execute(statement)).all()
        document_ids = take_until_chunks(rows, max_chunks)
        return document_ids, len(rows) == limit or len(document_ids) < len(rows)

    async def lock_expired(self, kb_id: UUID, documents: Collection[UUID]) -> list[UUID]:
        """Lock the given documents that have expired, until the transaction ends.

        Args:
            kb_id: The knowledge base.
            documents: Ids of documents that may have expired.

        Returns:
            The ids of documents with about ``MAX_BATCH_CHUNKS`` chunks together. A later call returns more.
        """
        statement = (
            select(DocumentRow.id, DocumentRow.chunk_count)
            .where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == kb_id, DocumentRow.id.in_(documents))
            .where(DocumentRow.expires_at <= func.now())
            .order_by(DocumentRow.id)  # a fixed order prevents deadlocks between parallel deletions
            .with_for_update()
        )
        return take_until_chunks(await self.session.execute(statement), MAX_BATCH_CHUNKS)

    async def find_newest_creation_time(self, kb_id: UUID, filters: DocumentRowFilters) -> datetime | None:
        """Return the creation time of the newest document that matches the filters, or None."""
        statement = apply_filters(select(func.max(DocumentRow.created_at)), filters)
        statement = statement.where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == kb_id)
        created_at: datetime | None = await self.session.scalar(statement)
        return created_at

    async def remove(self, kb_id: UUID, documents: Sequence[UUID], *, with_file: UUID | None = None) -> DeletedCounts:
        """Remove documents with all rows that depend on them.

        Args:
            kb_id: The knowledge base.
            documents: The documents to remove.
            with_file: A stored file that is deleted together with its documents, so it is not counted as retained.

        Returns:
            The removed documents, chunks of the live search index, bytes, and stored files that are retained.
        """
        values = {"t": self.tenant_id, "kb": kb_id, "ds": list(documents)}
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(kb_id)
        for subtract_statement in NEGATIVE_DELTAS:
            await self.session.fetch_rows(subtract_statement, values)
        chunks = await self.session.fetch_row(_REMOVE_CHUNKS, values)
        removed = await self.session.fetch_row(_REMOVE_DOCUMENTS, values)
        assert chunks is not None
        assert removed is not None
        await delete_stored_responses(self.session, self.tenant_id, documents)
        identities = list(zip(removed["names"] or [], removed["digests"] or [], strict=True))
        stored_file_count = await count_stored_files(
            self.session, self.tenant_id, identities, excluded_file_id=with_file
        )
        return DeletedCounts(removed["documents"], chunks["chunks"], removed["bytes"], stored_file_count)

    async def record_receipt(
        self,
        deletion_id: UUID,
        kb_id: UUID,
        amount: DeletedCounts,
        *,
        document_id: UUID | None = None,
        user_id: str | None = None,
    ) -> None:
        """Create the receipt of a deletion, or add counts to it.

        Args:
            deletion_id: The deletion.
            kb_id: The knowledge base.
            amount: The removed rows and bytes.
            document_id: The document, if the request named only one document.
            user_id: The user that the caller's key is restricted to.
        """
        await open_receipt(
            self.session,
            self.tenant_id,
            deletion_id,
            kind="documents" if document_id is None else "document",
            object_id=document_id or kb_id,
            kb_id=kb_id,
            counts=amount,
            add_to_existing=True,
            user_key=None if user_id is None else DocumentScope(user_id).to_key(),
        )


async def count_stored_files(
    session: Session, tenant_id: UUID, identities: Sequence[tuple[str, bytes]], *, excluded_file_id: UUID | None = None
) -> int:
    """Return the number of deleted documents that were made from a stored file that still exists.

    Args:
        session: An open transaction of the tenant.
        tenant_id: The tenant.
        identities: External id and content hash of each document.
        excluded_file_id: A stored file that is not counted.

    Returns:
        The number of documents.
    """
    file_digests = [
        (file_id, digest)
        for name, digest in identities
        if (file_id := decode_id("file", name)) not in (None, excluded_file_id)
    ]
    if not file_digests:
        return 0
    rows = await session.fetch_rows(_STORED_FILES, {"t": tenant_id, "ids": [file_id for file_id, _ in file_digests]})
    stored_files = {(row["id"], row["sha256"]) for row in rows}
    return sum(file_digest in stored_files for file_digest in file_digests)


# Subtracts the chunks from the document frequencies and totals before they are deleted.
_SUBTRACT_TERMS = parse_statement(
    build_count_subtraction("""
  select l.index_id, l.scope_key, l.keys, l.dl from chunk c
    join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = any(:ds::uuid[])""")
)
# The same for the entities of the chunks. A change that subtracts has no name.
_SUBTRACT_ENTITIES = parse_statement("""
with deleted as (
  select e.index_id, e.scope_key, e.keys, e.kinds from chunk c
    join chunk_entity e on (e.tenant_id, e.index_id, e.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = any(:ds::uuid[])
), counts as (
  select d.index_id, d.scope_key, k.key, -count(*) as chunks,
         -count(*) filter (where substr(d.kinds, k.position::int, 1) in ('t', 's', 'h')) as titles
    from deleted d cross join lateral unnest(d.keys) with ordinality k(key, position)
   group by d.index_id, d.scope_key, k.key
), private as (
  insert into private_entity_frequency (tenant_id, index_id, scope_key, key, chunks)
  select :t::uuid, c.index_id, s.scope_key, c.key, c.chunks
    from counts c cross join lateral (values (c.scope_key), (all_private_levels())) s(scope_key)
   where not is_open_level(c.scope_key)
)
insert into entity (tenant_id, index_id, key, chunks, titles)
select :t::uuid, index_id, key, sum(chunks), sum(titles) from counts group by index_id, key""")
# A transaction that deletes the chunks of documents runs these statements first.
NEGATIVE_DELTAS = (_SUBTRACT_TERMS, _SUBTRACT_ENTITIES)
_REMOVE_CHUNKS = parse_statement("""
with deleted as (
  delete from chunk where tenant_id = :t and kb_id = :kb and document_id = any(:ds::uuid[]) returning index_id
)
select count(*) as chunks from deleted
 where index_id = (select id from search_index where tenant_id = :t and kb_id = :kb and state = 'live')""")
_REMOVE_DOCUMENTS = parse_statement("""
with deleted as (
  delete from document where tenant_id = :t and kb_id = :kb and id = any(:ds::uuid[])
  returning bytes, external_id, sha256
)
select count(*) as documents, coalesce(sum(bytes), 0)::bigint as bytes,
       array_agg(external_id) filter (where starts_with(external_id, 'file_')) as names,
       array_agg(sha256) filter (where starts_with(external_id, 'file_')) as digests
  from deleted""")
_STORED_FILES = parse_statement("""
select id, sha256 from stored_file
 where tenant_id = :t and id = any(:ids::uuid[]) and (expires_at is null or expires_at > now())""")

"""Removing documents, and the record of it."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select, text

from app.db.models.ingestion_state import Deletion
from app.db.models.tenant_data import Document
from app.db.session import Session
from app.db.statements import statement
from app.documents.repository import DocumentFilters, narrowed
from app.filters import refusing
from app.knowledge_bases.repository import KnowledgeBaseRepository


class DeletionRepository:
    """Queries in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def lock(self, kb_id: UUID, filters: DocumentFilters, *, before: datetime | None, limit: int) -> list[UUID]:
        """The ids of some documents that the filters mean and that were there ``before``, kept until the end.

        Raises InvalidInput for a filter that the database refuses.
        """
        statement = narrowed(select(Document.id), filters)
        statement = statement.where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)
        if before is not None:
            statement = statement.where(Document.created_at <= before)
        # In order, so that of two deletions at once neither waits for the other for ever.
        statement = statement.order_by(Document.id).limit(limit).with_for_update()
        with refusing(loc=("query", "filter")):
            return list(await self.session.scalars(statement))

    async def remove(self, kb_id: UUID, documents: Sequence[UUID]) -> int:
        """Remove documents with all that hangs on them, out of every search at once; returns how many chunks.

        Those of the live search index are counted: others hold the same texts.
        """
        values = {"t": self.tenant_id, "kb": kb_id, "ds": list(documents)}
        await KnowledgeBaseRepository(self.session, self.tenant_id).hold_indexes(kb_id)
        await self.session.rows(NEGATIVE_DELTAS, values)
        chunks: int = (await self.session.execute(text(_REMOVE_CHUNKS), values)).scalar_one()
        await self.session.execute(text(_REMOVE_DOCUMENTS), values)
        return chunks

    async def record(self, deletion_id: UUID, kb_id: UUID, *, documents: int, chunks: int) -> None:
        """Add to the deletion's record."""
        values = {"t": self.tenant_id, "id": deletion_id, "kb": kb_id, "documents": documents, "chunks": chunks}
        await self.session.execute(text(_RECORD), values)

    async def record_nothing(self, deletion_id: UUID, kb_id: UUID) -> None:
        """The record of a deletion that found no document: it is over."""
        values = {"t": self.tenant_id, "id": deletion_id, "kb": kb_id}
        await self.session.execute(text(_RECORD_NOTHING), values)

    async def finish(self, deletion_id: UUID, job_id: UUID) -> None:
        """This job's originals are gone; where it was the last one, so is everything.

        The job goes here, under the lock of the record, so that of the last two exactly one sees that it is the last.
        """
        values = {"t": self.tenant_id, "id": deletion_id, "job": job_id, "deletion": str(deletion_id)}
        await self.session.execute(text(_LOCK), values)
        await self.session.execute(text("delete from job where tenant_id = :t and id = :job"), values)
        await self.session.execute(text(_FINISH), values)

    async def get(self, deletion_id: UUID) -> Deletion | None:
        """The record."""
        statement = select(Deletion).where(Deletion.tenant_id == self.tenant_id, Deletion.id == deletion_id)
        return await self.session.scalar(statement)


# The document frequencies and totals of what is about to go, kept by key, so that the rows themselves say them.
NEGATIVE_DELTAS = statement("""
with gone as (
  select l.index_id, l.keys, l.dl from chunk c
    join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = any(:ds::uuid[])
), totals as (
  insert into lex_totals select :t::uuid, index_id, -count(*), -sum(dl) from gone group by index_id
)
insert into lex_df select :t::uuid, index_id, k, -count(*), 0 from gone, unnest(keys) k group by index_id, k""")
_REMOVE_CHUNKS = """
with gone as (
  delete from chunk where tenant_id = :t and kb_id = :kb and document_id = any(cast(:ds as uuid[])) returning index_id
)
select count(*) from gone
 where index_id = (select id from search_index where tenant_id = :t and kb_id = :kb and state = 'live')"""
_REMOVE_DOCUMENTS = "delete from document where tenant_id = :t and kb_id = :kb and id = any(cast(:ds as uuid[]))"
_RECORD = """
insert into deletion (tenant_id, id, kb_id, documents, chunks) values (:t, :id, :kb, :documents, :chunks)
on conflict (tenant_id, id) do update
   set documents = deletion.documents + excluded.documents, chunks = deletion.chunks + excluded.chunks,
       finished_at = null  -- the originals of the batches before may be gone already"""
_RECORD_NOTHING = """
insert into deletion (tenant_id, id, kb_id, documents, chunks, finished_at) values (:t, :id, :kb, 0, 0, now())"""
_LOCK = "select 1 from deletion where tenant_id = :t and id = :id for update"
_FINISH = """
update deletion set finished_at = now() where tenant_id = :t and id = :id
   and not exists (select from job j where j.tenant_id = :t and j.kind = 'purge_objects'
                      and j.payload ->> 'deletion' = :deletion)"""

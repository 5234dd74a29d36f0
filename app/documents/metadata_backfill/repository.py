"""Queries of a metadata backfill: they write a knowledge base's new enforced metadata into documents and chunks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.batch_size import take_until_chunks
from app.filters import build_filter_metadata
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import BACKFILL_JOB


@dataclass(frozen=True, slots=True)
class MetadataBackfill:
    """Change of a knowledge base's enforced metadata from ``old`` to ``new``.

    Keys of ``new`` are set, and keys that only ``old`` has are removed. ``revision`` is the revision of ``new``.
    Documents with this revision were written after the change and stay as they are.
    """

    old: dict[str, Any]
    new: dict[str, Any]
    revision: int

    def to_params(self) -> dict[str, Any]:
        """Return the parameters of the statements."""
        return {
            "revision": self.revision,
            "new": json.dumps(self.new),
            "filter_metadata": json.dumps(build_filter_metadata(self.new, reserved={})),
            "removed_keys": sorted(self.old.keys() | self.new.keys()),
        }


class MetadataBackfillRepository:
    """Queries of the metadata backfill of one knowledge base."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def find_pending(self) -> MetadataBackfill | None:
        """Return the pending metadata backfill, or None if there is none or the knowledge base was deleted."""
        row = await self.session.fetch_row(_FIND_PENDING, self._key_params)
        return None if row is None else MetadataBackfill(*row)

    async def lock_batch(self, backfill: MetadataBackfill, *, limit: int, max_chunks: int) -> list[UUID]:
        """Lock documents without the new enforced metadata until the transaction ends.

        The result has at most ``limit`` documents with about ``max_chunks`` chunks together, at least one document.
        """
        rows = await self.session.fetch_rows(_LOCK_BATCH, {**self._key_params, **backfill.to_params(), "limit": limit})
        return take_until_chunks(((row["id"], row["chunk_count"]) for row in rows), max_chunks)

    async def apply_to_document(self, document_id: UUID) -> None:
        """Apply the pending metadata backfill to one document before the document is changed.

        From then on, the backfill does not touch the document, so the caller's changes stay. The document's chunks do
        not keep the former metadata. Nothing happens if the document is up to date.

        Args:
            document_id: The document.
        """
        backfill = await self.find_pending()
        if backfill is not None and await self.session.fetch_row(
            _LOCK_DOCUMENT, {**self._key_params, **backfill.to_params(), "d": document_id}
        ):
            await self.apply(backfill, [document_id])

    async def apply(self, backfill: MetadataBackfill, documents: Sequence[UUID]) -> None:
        """Write the new enforced metadata into documents, their chunks, and the rows that retrievers filter.

        The new values override the metadata of single chunks.

        Args:
            backfill: The change of the enforced metadata.
            documents: The documents. They are locked.
        """
        values = {**self._key_params, **backfill.to_params(), "ds": list(documents)}
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(self.kb_id)
        for update_statement in (_UPDATE_DOCUMENTS, _UPDATE_CHUNKS, *_UPDATE_SEARCH_ROWS):
            await self.session.fetch_rows(update_statement, values)

    async def finish(self, backfill: MetadataBackfill) -> bool:
        """Make the new enforced metadata the current one, if every document has it.

        The lock of the knowledge base waits for uploads that have read the former metadata. Later uploads read the new
        metadata.

        Args:
            backfill: The change of the enforced metadata.

        Returns:
            False if a document still has the former metadata.
        """
        await self.session.fetch_rows(_LOCK_KNOWLEDGE_BASE, self._key_params)
        is_finished = await self.session.fetch_row(_FINISH, {**self._key_params, **backfill.to_params()}) is not None
        if is_finished:
            await self.session.fetch_rows(_DELETE_DEAD_JOBS, {**self._key_params, "kind": BACKFILL_JOB})
        return is_finished

    @property
    def _key_params(self) -> dict[str, Any]:
        return {"t": self.tenant_id, "kb": self.kb_id}


_FIND_PENDING = parse_statement("""
select metadata_filter, pending_metadata_filter, filter_revision + 1 from knowledge_base
 where tenant_id = :t and id = :kb and pending_metadata_filter is not null""")
# The revision shows whether a document is outdated, because a caller's metadata may equal the former enforced metadata.
# A document with the new
# revision but without the new values was written by a process of an earlier version, which does not know revisions.
# Such a document is updated as well, or no reader would find it.
_IS_OUTDATED = """
d.tenant_id = :t and d.kb_id = :kb and (d.metadata_revision < :revision::int or not d.filterable @> :new::jsonb)"""
_LOCK_BATCH = parse_statement(f"""
select d.id, d.chunk_count from document d where {_IS_OUTDATED} order by d.id limit :limit for update""")  # noqa: S608
_LOCK_DOCUMENT = parse_statement(f"select 1 from document d where {_IS_OUTDATED} and d.id = :d for update")  # noqa: S608
# The result equals ``build_filter_metadata`` of the changed metadata. ``$instants`` contains the values that are dates.
_FILTER_METADATA = """
(row.metadata - :removed_keys::text[] - '$instants') || (:filter_metadata::jsonb - '$instants')
  || case when dates.found = '{}' then '{}' else jsonb_build_object('$instants', dates.found) end"""
_DATES = """
lateral (select (coalesce(row.metadata -> '$instants', '{}') - :removed_keys::text[])
                || coalesce(:filter_metadata::jsonb -> '$instants', '{}') as found) dates"""
_UPDATE_DOCUMENTS = parse_statement(f"""
update document d set metadata = (d.metadata - :removed_keys::text[]) || :new::jsonb, filterable = {_FILTER_METADATA},
       metadata_revision = :revision::int, updated_at = now()
  from (select id, filterable as metadata from document where tenant_id = :t and id = any(:ds::uuid[])) row, {_DATES}
 where d.tenant_id = :t and d.id = row.id""")  # noqa: S608
_UPDATE_CHUNKS = parse_statement("""
update chunk set metadata = metadata - :removed_keys::text[]
 where tenant_id = :t and kb_id = :kb and document_id = any(:ds::uuid[]) and metadata ?| :removed_keys::text[]""")
_UPDATE_SEARCH_ROWS = [
    parse_statement(f"""
update {table} l set metadata = {_FILTER_METADATA}
  from (select r.index_id, r.chunk_id, r.metadata from chunk c
          join {table} r on (r.tenant_id, r.index_id, r.chunk_id) = (c.tenant_id, c.index_id, c.id)
         where c.tenant_id = :t and c.kb_id = :kb and c.document_id = any(:ds::uuid[])) row, {_DATES}
 where l.tenant_id = :t and l.index_id = row.index_id and l.chunk_id = row.chunk_id""")  # noqa: S608
    for table in ("chunk_embedding", "chunk_lexical")
]
# Deletes failed jobs of a metadata backfill that is complete now.
_DELETE_DEAD_JOBS = parse_statement("""
delete from job
 where tenant_id = :t and kind = :kind and state = 'dead' and payload ->> 'knowledge_base' = (:kb::uuid)::text""")
_LOCK_KNOWLEDGE_BASE = parse_statement("select 1 from knowledge_base where tenant_id = :t and id = :kb for update")
_FINISH = parse_statement(f"""
update knowledge_base
   set metadata_filter = pending_metadata_filter, pending_metadata_filter = null, filter_revision = :revision::int,
       updated_at = now()
 where tenant_id = :t and id = :kb and pending_metadata_filter is not null
   and not exists (select from document d where {_IS_OUTDATED})
returning 1""")  # noqa: S608

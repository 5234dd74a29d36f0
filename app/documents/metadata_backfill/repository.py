"""Giving documents and their chunks the next stamp of their knowledge base."""

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
    """From which stamp to which; the keys of ``new`` are set, those of ``old`` alone are taken away.

    ``revision`` is that of the new one: what has it already was written after the change, and keeps what it says.
    """

    old: dict[str, Any]
    new: dict[str, Any]
    revision: int

    def to_params(self) -> dict[str, Any]:
        """For the statements."""
        return {
            "revision": self.revision,
            "new": json.dumps(self.new),
            "filter_metadata": json.dumps(build_filter_metadata(self.new, reserved={})),
            "removed_keys": sorted(self.old.keys() | self.new.keys()),
        }


class MetadataBackfillRepository:
    """Queries in one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def find_pending(self) -> MetadataBackfill | None:
        """What is under way; None when nothing is, or the knowledge base is gone."""
        row = await self.session.fetch_row(_FIND_PENDING, self._key_params)
        return None if row is None else MetadataBackfill(*row)

    async def lock_batch(self, backfill: MetadataBackfill, *, limit: int, max_chunks: int) -> list[UUID]:
        """Some documents with the old stamp, kept from every other change until the transaction ends.

        At most ``limit``, and so many that they have about ``max_chunks``: one at least.
        """
        rows = await self.session.fetch_rows(_LOCK_BATCH, {**self._key_params, **backfill.to_params(), "limit": limit})
        return take_until_chunks(((row["id"], row["chunk_count"]) for row in rows), max_chunks)

    async def apply_to_document(self, document_id: UUID) -> None:
        """Give one document what is under way, before it is changed; nothing where it has it already.

        From then on its metadata is what its caller says, and its chunks are not left behind with the old stamp.
        """
        backfill = await self.find_pending()
        if backfill is not None and await self.session.fetch_row(
            _LOCK_DOCUMENT, {**self._key_params, **backfill.to_params(), "d": document_id}
        ):
            await self.apply(backfill, [document_id])

    async def apply(self, backfill: MetadataBackfill, documents: Sequence[UUID]) -> None:
        """The rows, and what filters see of them in both lanes; what chunks say themselves gives way."""
        values = {**self._key_params, **backfill.to_params(), "ds": list(documents)}
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(self.kb_id)
        for update_statement in (_UPDATE_DOCUMENTS, _UPDATE_CHUNKS, *_UPDATE_SEARCH_ROWS):
            await self.session.fetch_rows(update_statement, values)

    async def finish(self, backfill: MetadataBackfill) -> bool:
        """Put the new stamp into the place of the old one; False where a document still has the old one.

        Uploads that have looked at the stamp are waited for, and later ones see the new one.
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
# By its number, because metadata of the caller's own may look like the old stamp. What lacks the new one in spite of
# its number was written beside a process of a version before, which does not count; it must not get out of reach.
_IS_OUTDATED = """
d.tenant_id = :t and d.kb_id = :kb and (d.metadata_revision < :revision::int or not d.filterable @> :new::jsonb)"""
_LOCK_BATCH = parse_statement(f"""
select d.id, d.chunk_count from document d where {_IS_OUTDATED} order by d.id limit :limit for update""")  # noqa: S608
_LOCK_DOCUMENT = parse_statement(f"select 1 from document d where {_IS_OUTDATED} and d.id = :d for update")  # noqa: S608
# As filterable_metadata makes it of metadata with the new stamp: $instants has only what is a date.
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
# Dead letters of what is done now.
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

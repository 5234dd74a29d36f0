"""Giving documents and their chunks the next stamp of their knowledge base."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import statement
from app.documents.batches import with_chunks
from app.filters import filterable_metadata
from app.knowledge_bases.repository import KnowledgeBaseRepository
from app.knowledge_bases.service import RESTAMP_JOB


@dataclass(frozen=True, slots=True)
class Restamp:
    """From which stamp to which; the keys of ``new`` are set, those of ``old`` alone are taken away.

    ``number`` is that of the new one: what has it already was written after the change, and keeps what it says.
    """

    old: dict[str, Any]
    new: dict[str, Any]
    number: int

    def values(self) -> dict[str, Any]:
        """For the statements."""
        return {
            "number": self.number,
            "new": json.dumps(self.new),
            "seen": json.dumps(filterable_metadata(self.new, reserved={})),
            "gone": sorted(self.old.keys() | self.new.keys()),
        }


class RestampRepository:
    """Queries in one knowledge base of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID, kb_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id
        self.kb_id = kb_id

    async def wanted(self) -> Restamp | None:
        """What is under way; None when nothing is, or the knowledge base is gone."""
        row = await self.session.row(_WANTED, self._place)
        return None if row is None else Restamp(*row)

    async def take(self, restamp: Restamp, *, limit: int, chunks: int) -> list[UUID]:
        """Some documents with the old stamp, kept from every other change until the transaction ends.

        At most ``limit``, and so many that they have about ``chunks``: one at least.
        """
        rows = await self.session.rows(_TAKE, {**self._place, **restamp.values(), "limit": limit})
        return with_chunks(((row["id"], row["chunk_count"]) for row in rows), chunks)

    async def advance(self, document_id: UUID) -> None:
        """Give one document what is under way, before it is changed; nothing where it has it already.

        From then on its metadata is what its caller says, and its chunks are not left behind with the old stamp.
        """
        restamp = await self.wanted()
        if restamp is not None and await self.session.row(
            _TAKE_ONE, {**self._place, **restamp.values(), "d": document_id}
        ):
            await self.stamp(restamp, [document_id])

    async def stamp(self, restamp: Restamp, documents: Sequence[UUID]) -> None:
        """The rows, and what filters see of them in both lanes; what chunks say themselves gives way."""
        values = {**self._place, **restamp.values(), "ds": list(documents)}
        await KnowledgeBaseRepository(self.session, self.tenant_id).hold_indexes(self.kb_id)
        for each in (_STAMP_DOCUMENTS, _STAMP_CHUNKS, *_STAMP_LANES):
            await self.session.rows(each, values)

    async def finish(self, restamp: Restamp) -> bool:
        """Put the new stamp into the place of the old one; False where a document still has the old one.

        Uploads that have looked at the stamp are waited for, and later ones see the new one.
        """
        await self.session.rows(_HOLD, self._place)
        is_over = await self.session.row(_FINISH, {**self._place, **restamp.values()}) is not None
        if is_over:
            await self.session.rows(_FORGET_DEAD, {**self._place, "kind": RESTAMP_JOB})
        return is_over

    @property
    def _place(self) -> dict[str, Any]:
        return {"t": self.tenant_id, "kb": self.kb_id}


_WANTED = statement("""
select metadata_filter, pending_filter, filter_number + 1 from knowledge_base
 where tenant_id = :t and id = :kb and pending_filter is not null""")
# By its number, because metadata of the caller's own may look like the old stamp. What lacks the new one in spite of
# its number was written beside a process of a version before, which does not count; it must not get out of reach.
_UNSTAMPED = """
d.tenant_id = :t and d.kb_id = :kb and (d.stamp_number < :number::int or not d.filterable @> :new::jsonb)"""
_TAKE = statement(f"""
select d.id, d.chunk_count from document d where {_UNSTAMPED} order by d.id limit :limit for update""")  # noqa: S608
_TAKE_ONE = statement(f"select 1 from document d where {_UNSTAMPED} and d.id = :d for update")  # noqa: S608
# As filterable_metadata makes it of metadata with the new stamp: $instants has only what is a date.
_SEEN = """
(row.metadata - :gone::text[] - '$instants') || (:seen::jsonb - '$instants') || case when dates.found = '{}' then '{}'
  else jsonb_build_object('$instants', dates.found) end"""
_DATES = """
lateral (select (coalesce(row.metadata -> '$instants', '{}') - :gone::text[])
                || coalesce(:seen::jsonb -> '$instants', '{}') as found) dates"""
_STAMP_DOCUMENTS = statement(f"""
update document d set metadata = (d.metadata - :gone::text[]) || :new::jsonb, filterable = {_SEEN},
       stamp_number = :number::int, updated_at = now()
  from (select id, filterable as metadata from document where tenant_id = :t and id = any(:ds::uuid[])) row, {_DATES}
 where d.tenant_id = :t and d.id = row.id""")  # noqa: S608
_STAMP_CHUNKS = statement("""
update chunk set metadata = metadata - :gone::text[]
 where tenant_id = :t and kb_id = :kb and document_id = any(:ds::uuid[]) and metadata ?| :gone::text[]""")
_STAMP_LANES = [
    statement(f"""
update {lane} l set metadata = {_SEEN}
  from (select r.index_id, r.chunk_id, r.metadata from chunk c
          join {lane} r on (r.tenant_id, r.index_id, r.chunk_id) = (c.tenant_id, c.index_id, c.id)
         where c.tenant_id = :t and c.kb_id = :kb and c.document_id = any(:ds::uuid[])) row, {_DATES}
 where l.tenant_id = :t and l.index_id = row.index_id and l.chunk_id = row.chunk_id""")  # noqa: S608
    for lane in ("chunk_embedding", "chunk_lexical")
]
# Dead letters of what is done now.
_FORGET_DEAD = statement("""
delete from job
 where tenant_id = :t and kind = :kind and state = 'dead' and payload ->> 'knowledge_base' = (:kb::uuid)::text""")
_HOLD = statement("select 1 from knowledge_base where tenant_id = :t and id = :kb for update")
_FINISH = statement(f"""
update knowledge_base set metadata_filter = pending_filter, pending_filter = null, filter_number = :number::int,
       updated_at = now()
 where tenant_id = :t and id = :kb and pending_filter is not null
   and not exists (select from document d where {_UNSTAMPED})
returning 1""")  # noqa: S608

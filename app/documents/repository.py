"""Document queries, and status transitions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVarTuple
from uuid import UUID

from sqlalchemy import Select, delete, func, null, select, text, tuple_, update

from app.db.models.control_plane import Job
from app.db.models.tenant_data import Document
from app.db.readable import READABLE
from app.db.session import Session
from app.db.statements import statement
from app.documents.records import DOCUMENT_COLUMNS, document_from
from app.documents.types import filterable
from app.filters import EXPIRY, INSTANTS, refusing
from app.knowledge_bases.repository import KnowledgeBaseRepository

Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """What documents can be narrowed by; ``reader`` is the user that the key is narrowed to, ``own`` leaves to such a
    key only what it may change. ``expired`` takes in those whose time has passed, which nobody reads any more.
    """

    ids: Sequence[UUID] | None = None
    status: str | None = None
    external_id: str | None = None
    scope_key: UUID | None = None
    contains: dict[str, Any] | None = None
    path: str | None = None
    reader: str | None = None
    own: bool = False
    expired: bool = False


class DocumentRepository:
    """Queries in one tenant; the knowledge base narrows every one that a caller's id reaches."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def restart(self, document_id: UUID, *, encoding: str | None = None) -> None:
        """Take the newest version back to the start, in another encoding if named; its dead letters are done with."""
        await self.session.execute(
            delete(Job).where(Job.tenant_id == self.tenant_id, Job.document_id == document_id, Job.state == "dead")
        )
        await self.session.execute(
            update(Document)
            .where(Document.tenant_id == self.tenant_id, Document.id == document_id)
            .values(status="queued", error=null(), progress=null(), encoding=func.coalesce(encoding, Document.encoding))
        )

    async def get(
        self, kb_id: UUID, document_id: UUID, *, reader: str | None = None, lock: bool = False
    ) -> Document | None:
        """One document, if a key that is narrowed to ``reader`` may read it.

        ``lock`` keeps every other change of it waiting until the transaction ends. Only what is locked can be changed
        through its attributes.
        """
        if lock:
            locked = narrowed(select(Document), DocumentFilters(ids=[document_id], reader=reader))
            locked = locked.filter_by(tenant_id=self.tenant_id, kb_id=kb_id)
            return await self.session.scalar(locked.with_for_update(of=Document))
        values = {"tenant": self.tenant_id, "kb": kb_id, "document": document_id}
        if reader is None:
            found = await self.session.row(_GET, values)
        else:
            found = await self.session.row(_GET_READABLE, {**values, "reader": reader})
        return document_from(found) if found else None

    async def page(
        self, kb_id: UUID, filters: DocumentFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[Document]:
        """Newest first. Raises InvalidInput for a filter that the database refuses."""
        statement = narrowed(select(Document), filters)
        statement = statement.where(Document.tenant_id == self.tenant_id, Document.kb_id == kb_id)
        if after is not None:
            statement = statement.where(tuple_(Document.created_at, Document.id) < after)
        statement = statement.order_by(Document.created_at.desc(), Document.id.desc()).limit(limit)
        with refusing(loc=("query", "filter")):
            return list(await self.session.scalars(statement))

    async def object_key(self, document_id: UUID, version: int) -> str | None:
        """Where the original of a version is."""
        found: str | None = await self.session.scalar(
            text("select key from document_object where tenant_id = :t and document_id = :d and version = :v"),
            {"t": self.tenant_id, "d": document_id, "v": version},
        )
        return found

    async def restamp(self, document: Document) -> None:
        """Give the lanes what filters see of the document now, and whom it belongs to.

        What belongs to the single chunk (page, node, suspicions) stays; so do the file's name and type, and whether it
        is dynamic, while the row is already that of another version than the live one.
        """
        kept = ["$page", "$node", "$suspicious"]
        if document.version != document.live_version:
            kept += ["$source", "$media_type", "$dynamic"]
        place = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id}
        await KnowledgeBaseRepository(self.session, self.tenant_id).hold_indexes(document.kb_id)
        rows = (await self.session.execute(text(_OWN_METADATA), place)).all()
        values = {
            **place,
            "scope": document.scope_key,
            "stamped": json.dumps(document.filterable),
            "kept": kept,
            "chunks": [row.id for row in rows],
            "own": [json.dumps(filterable(document, row.metadata)) for row in rows],
        }
        await self.session.rows(_MOVE_FREQUENCIES, place | {"scope": document.scope_key})
        for lane in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(text(_RESTAMP.format(lane=lane)), values)

    async def restamp_expiry(self, document: Document) -> None:
        """Have the live version end when the document does, while the next is on its way; all else stays its own."""
        await KnowledgeBaseRepository(self.session, self.tenant_id).hold_indexes(document.kb_id)
        stamps = document.filterable, document.filterable[INSTANTS]
        own, instants = (json.dumps({EXPIRY: one[EXPIRY]} if EXPIRY in one else {}) for one in stamps)
        place = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "name": EXPIRY}
        for lane in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(
                text(_RESTAMP_EXPIRY.format(lane=lane)), {**place, "own": own, "dates": instants}
            )


def narrowed(statement: Select[*Ts], filters: DocumentFilters) -> Select[*Ts]:
    """The statement over documents, for those alone that the filters mean and the knowledge base's own lets through."""
    statement = statement.where(_GUARDED)
    if not filters.expired:
        statement = statement.where(text(_LASTING))
    if filters.ids is not None:
        statement = statement.where(Document.id.in_(filters.ids))
    if filters.status is not None:
        statement = statement.where(Document.status == filters.status)
    if filters.external_id is not None:
        statement = statement.where(Document.external_id == filters.external_id)
    if filters.scope_key is not None:
        statement = statement.where(Document.scope_key == filters.scope_key)
    if filters.contains is not None:
        contains = text("document.filterable @> cast(:contains as jsonb)")
        statement = statement.where(contains.bindparams(contains=json.dumps(filters.contains)))
    if filters.path is not None:
        path = text("document.filterable @@ cast(:path as jsonpath)")
        statement = statement.where(path.bindparams(path=filters.path))
    if filters.reader is not None:
        statement = statement.where(text(READABLE).bindparams(reader=filters.reader))
        if filters.own:
            statement = statement.where(Document.scope_level.not_in(("shared", "tenant")))
    return statement


# A knowledge base's own filter is plain values, so that a row passes it by containing it; while another one is being
# stamped on the rows, they have the one or the other.
_GUARD = """
exists (select from knowledge_base k where k.tenant_id = document.tenant_id and k.id = document.kb_id
           and (document.filterable @> k.metadata_filter or document.filterable @> k.pending_filter))"""
_GUARDED = text(_GUARD)
# A sweeper removes the others soon.
_LASTING = "(document.expires_at is null or document.expires_at > now())"
_ONE = f"""
select {DOCUMENT_COLUMNS} from document
 where tenant_id = :tenant and kb_id = :kb and id = :document and {_GUARD} and {_LASTING}"""  # noqa: S608
_GET = statement(_ONE)
_GET_READABLE = statement(f"{_ONE} and {READABLE}")
_OWN_METADATA = """
select distinct id, metadata from chunk
 where tenant_id = :t and kb_id = :kb and document_id = :d and metadata <> '{}'"""
_RESTAMP = """
update {lane} l
   set scope_key = :scope,
       metadata = (coalesce(o.metadata, cast(:stamped as jsonb)) - cast(:kept as text[])) || coalesce(
         (select jsonb_object_agg(e.key, e.value) from jsonb_each(l.metadata) e where e.key = any(:kept)),
         '{{}}'::jsonb)
  from chunk c
  left join unnest(cast(:chunks as uuid[]), cast(:own as jsonb[])) o(id, metadata) on o.id = c.id
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""
# Of what another level is given: taken from the old one and added to the new one, as far as they are private.
_MOVE_FREQUENCIES = statement("""
with moved as (
  select l.index_id, l.scope_key, l.keys from chunk c
    join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and l.scope_key <> :scope
), counted as (
  select m.index_id, m.scope_key, k.key, count(*)::int as chunks
    from moved m cross join lateral (select unnest(m.keys) union all select null) k(key)
   group by m.index_id, m.scope_key, k.key
)
insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
select :t::uuid, n.index_id, s.scope_key, n.key, n.chunks * l.sign
  from counted n
 cross join lateral (values (n.scope_key, -1), (:scope::uuid, 1)) l(scope_key, sign)
 cross join lateral (values (l.scope_key), (all_private_levels())) s(scope_key)
 where not is_open_level(l.scope_key)""")
_RESTAMP_EXPIRY = """
update {lane} l
   set metadata = jsonb_set((l.metadata - cast(:name as text)) || cast(:own as jsonb), array['$instants'],
                            (l.metadata -> '$instants') - cast(:name as text) || cast(:dates as jsonb))
  from chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""

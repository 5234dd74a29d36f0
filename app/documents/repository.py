"""Queries for documents, and changes of their rows and of their metadata in the search index."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVarTuple
from uuid import UUID

from sqlalchemy import Select, delete, func, null, select, text, tuple_, update

from app.db.document_visibility import ENFORCED_CONDITION, NOT_EXPIRED_CONDITION, READABLE_CONDITION
from app.db.models.control_plane import Job
from app.db.models.tenant_data import DocumentRow
from app.db.page_counts import count_selected
from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.row_codec import DOCUMENT_COLUMNS, parse_document_row
from app.documents.types import build_document_filter_metadata
from app.filters import EXPIRY, INSTANTS, translate_filter_errors
from app.knowledge_bases.repository import KnowledgeBaseRepository

Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class DocumentRowFilters:
    """Conditions on documents; a condition that is None is not applied.

    ``reader`` is the user that the caller's key is restricted to: only documents that this user may read match. With
    ``only_writable``, only documents that this user may also change match. ``contains`` and ``path`` are the two parts
    of a compiled metadata filter. ``include_expired`` also matches documents after their expiry, which readers do not
    see.
    """

    ids: Sequence[UUID] | None = None
    status: str | None = None
    external_id: str | None = None
    scope_key: UUID | None = None
    contains: dict[str, Any] | None = None
    path: str | None = None
    reader: str | None = None
    only_writable: bool = False
    include_expired: bool = False


class DocumentRepository:
    """Queries for documents of one tenant. A document is found only in the knowledge base that the caller names."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def restart(self, document_id: UUID, *, encoding: str | None = None) -> None:
        """Set the newest version of a document back to ``queued`` and delete its failed jobs.

        Args:
            document_id: The document.
            encoding: The text encoding to use from now on. None leaves it unchanged.
        """
        await self.session.execute(
            delete(Job).where(Job.tenant_id == self.tenant_id, Job.document_id == document_id, Job.state == "dead")
        )
        await self.session.execute(
            update(DocumentRow)
            .where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.id == document_id)
            .values(
                status="queued", error=null(), progress=null(), encoding=func.coalesce(encoding, DocumentRow.encoding)
            )
        )

    async def get(
        self, kb_id: UUID, document_id: UUID, *, reader: str | None = None, lock: bool = False
    ) -> DocumentRow | None:
        """Return one document of a knowledge base.

        Args:
            kb_id: The knowledge base.
            document_id: The document.
            reader: The user that the caller's key is restricted to, or None. Documents that the user may not read are
                not found.
            lock: Lock the row until the transaction ends. Only a locked row can be changed through its attributes.

        Returns:
            The document, or None if it does not exist, has expired, or may not be read.
        """
        if lock:
            locked = apply_filters(select(DocumentRow), DocumentRowFilters(ids=[document_id], reader=reader))
            locked = locked.filter_by(tenant_id=self.tenant_id, kb_id=kb_id)
            return await self.session.scalar(locked.with_for_update(of=DocumentRow))
        values = {"tenant": self.tenant_id, "kb": kb_id, "document": document_id}
        if reader is None:
            row = await self.session.fetch_row(_GET, values)
        else:
            row = await self.session.fetch_row(_GET_READABLE, {**values, "reader": reader})
        return parse_document_row(row) if row else None

    async def list_documents(
        self, kb_id: UUID, filters: DocumentRowFilters, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[DocumentRow]:
        """List documents of a knowledge base, newest first.

        Args:
            kb_id: The knowledge base.
            filters: The conditions on the documents.
            after: Creation time and id of the last document of the previous page. None begins with the newest document.
            limit: The maximum number of documents.

        Returns:
            At most ``limit`` documents.

        Raises:
            InvalidInputError: The database rejects the filter.
        """
        statement = apply_filters(select(DocumentRow), filters)
        statement = statement.where(DocumentRow.tenant_id == self.tenant_id, DocumentRow.kb_id == kb_id)
        with translate_filter_errors(loc=("query", "filter")):
            await count_selected(self.session, limit, statement)
        if after is not None:
            statement = statement.where(tuple_(DocumentRow.created_at, DocumentRow.id) < after)
        statement = statement.order_by(DocumentRow.created_at.desc(), DocumentRow.id.desc()).limit(limit)
        with translate_filter_errors(loc=("query", "filter")):
            return list(await self.session.scalars(statement))

    async def find_object_key(self, document_id: UUID, version: int) -> str | None:
        """Return the key in the object store of the original of a document version, or None if it is not stored."""
        key: str | None = await self.session.scalar(
            text("select key from document_object where tenant_id = :t and document_id = :d and version = :v"),
            {"t": self.tenant_id, "d": document_id, "v": version},
        )
        return key

    async def update_search_metadata(self, document: DocumentRow) -> None:
        """Write a document's current metadata and scope into the rows of its chunks that retrievers filter.

        Values of a single chunk (page, node, prompt injection flags) stay. If the newest version is not live yet, the
        live version's filename, media type and ``dynamic`` flag stay as well.

        Args:
            document: The row, after its changes.
        """
        chunk_keys = ["$page", "$node", "$suspicious"]
        if document.version != document.live_version:
            chunk_keys += ["$source", "$media_type", "$dynamic"]
        params = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id}
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(document.kb_id)
        rows = (await self.session.execute(text(_OWN_METADATA), params)).all()
        values = {
            **params,
            "scope": document.scope_key,
            "metadata": json.dumps(document.filterable),
            "chunk_keys": chunk_keys,
            "chunks": [row.id for row in rows],
            "own": [json.dumps(build_document_filter_metadata(document, row.metadata)) for row in rows],
        }
        scope_params = params | {"scope": document.scope_key}
        for move_statement in (*_MOVE_FREQUENCIES, _MOVE_ENTITIES):
            await self.session.fetch_rows(move_statement, scope_params)
        for table in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(text(_UPDATE_METADATA.format(table=table)), values)

    async def update_search_expiry(self, document: DocumentRow) -> None:
        """Write a document's expiry into the rows that retrievers filter, while the next version is being ingested.

        The live version then expires together with the document. Its other metadata stays unchanged.

        Args:
            document: The row of the next version.
        """
        await KnowledgeBaseRepository(self.session, self.tenant_id).lock_indexes(document.kb_id)
        metadata_maps = document.filterable, document.filterable[INSTANTS]
        expiry, instants = (
            json.dumps({EXPIRY: metadata[EXPIRY]} if EXPIRY in metadata else {}) for metadata in metadata_maps
        )
        params = {"t": self.tenant_id, "kb": document.kb_id, "d": document.id, "name": EXPIRY}
        for table in ("chunk_embedding", "chunk_lexical"):
            await self.session.execute(
                text(_UPDATE_EXPIRY.format(table=table)), {**params, "own": expiry, "dates": instants}
            )


def apply_filters(statement: Select[*Ts], filters: DocumentRowFilters) -> Select[*Ts]:
    """Return a statement over documents with the conditions added.

    The knowledge base's enforced metadata is always a condition.

    Args:
        statement: A selection from ``document``.
        filters: The conditions on the documents.

    Returns:
        The statement with all conditions.
    """
    statement = statement.where(_ENFORCED_FILTER)
    if not filters.include_expired:
        statement = statement.where(text(NOT_EXPIRED_CONDITION))
    if filters.ids is not None:
        statement = statement.where(DocumentRow.id.in_(filters.ids))
    if filters.status is not None:
        statement = statement.where(DocumentRow.status == filters.status)
    if filters.external_id is not None:
        statement = statement.where(DocumentRow.external_id == filters.external_id)
    if filters.scope_key is not None:
        statement = statement.where(DocumentRow.scope_key == filters.scope_key)
    if filters.contains is not None:
        contains = text("document.filterable @> cast(:contains as jsonb)")
        statement = statement.where(contains.bindparams(contains=json.dumps(filters.contains)))
    if filters.path is not None:
        path = text("document.filterable @@ cast(:path as jsonpath)")
        statement = statement.where(path.bindparams(path=filters.path))
    if filters.reader is not None:
        statement = statement.where(text(READABLE_CONDITION).bindparams(reader=filters.reader))
        if filters.only_writable:
            statement = statement.where(DocumentRow.scope_level.not_in(("shared", "tenant")))
    return statement


_ENFORCED_FILTER = text(ENFORCED_CONDITION)
_SELECT_DOCUMENT = f"""
select {DOCUMENT_COLUMNS} from document
 where tenant_id = :tenant and kb_id = :kb and id = :document and {ENFORCED_CONDITION} and {NOT_EXPIRED_CONDITION}"""  # noqa: S608
_GET = parse_statement(_SELECT_DOCUMENT)
_GET_READABLE = parse_statement(f"{_SELECT_DOCUMENT} and {READABLE_CONDITION}")
_OWN_METADATA = """
select distinct id, metadata from chunk
 where tenant_id = :t and kb_id = :kb and document_id = :d and metadata <> '{}'"""
_UPDATE_METADATA = """
update {table} l
   set scope_key = :scope,
       metadata = (coalesce(o.metadata, cast(:metadata as jsonb)) - cast(:chunk_keys as text[])) || coalesce(
         (select jsonb_object_agg(e.key, e.value) from jsonb_each(l.metadata) e where e.key = any(:chunk_keys)),
         '{{}}'::jsonb)
  from chunk c
  left join unnest(cast(:chunks as uuid[]), cast(:own as jsonb[])) o(id, metadata) on o.id = c.id
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""
# Document frequencies of scopes that are private are counted for each scope. If a document changes its scope, its
# chunks are subtracted from the former scope and added to the new scope.
_MOVE_FREQUENCIES_TEMPLATE = """
with moved as (
  select l.index_id, l.scope_key, l.keys from chunk c
    join {table} l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
   where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and l.scope_key <> :scope
), counted as (
  select m.index_id, m.scope_key, k.key, count(*)::int as chunks
    from moved m cross join lateral (select unnest(m.keys){total}) k(key)
   group by m.index_id, m.scope_key, k.key
)
insert into {frequencies} (tenant_id, index_id, scope_key, key, chunks)
select :t::uuid, n.index_id, s.scope_key, n.key, n.chunks * l.sign
  from counted n
 cross join lateral (values (n.scope_key, -1), (:scope::uuid, 1)) l(scope_key, sign)
 cross join lateral (values (l.scope_key), (all_private_levels())) s(scope_key)
 where not is_open_level(l.scope_key)"""
_MOVE_FREQUENCIES = [
    parse_statement(_MOVE_FREQUENCIES_TEMPLATE.format(table=table, frequencies=frequencies, total=total))
    for table, frequencies, total in (
        ("chunk_lexical", "private_frequency", " union all select null"),  # the key null counts all chunks
        ("chunk_entity", "private_entity_frequency", ""),
    )
]
_MOVE_ENTITIES = parse_statement("""
update chunk_entity e set scope_key = :scope from chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and e.scope_key <> :scope
   and e.tenant_id = c.tenant_id and e.index_id = c.index_id and e.chunk_id = c.id""")
_UPDATE_EXPIRY = """
update {table} l
   set metadata = jsonb_set((l.metadata - cast(:name as text)) || cast(:own as jsonb), array['$instants'],
                            (l.metadata -> '$instants') - cast(:name as text) || cast(:dates as jsonb))
  from chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d
   and l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id"""

"""Statements that store the entities and relations of a chat model with the counts of the entity graph."""

import json
from collections.abc import Sequence
from uuid import UUID

from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.documents.scopes import OPEN_LEVEL_KEYS
from app.enrichment.graph_rows import (
    ChunkEntities,
    GraphChanges,
    StoredChunk,
    format_chunk_rows,
    normalize_entities,
)
from app.enrichment.types import METHOD, EnrichmentTarget


class EnrichedGraphRepository:
    """Entities and relations of a chat model, of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def load_chunks(self, target: EnrichmentTarget) -> list[StoredChunk]:
        """Return the chunks of a document in the live search index, in reading order, with their entities."""
        values = {"t": self.tenant_id, "kb": target.kb_id, "i": target.index_id, "d": target.document_id}
        rows = await self.session.fetch_rows(_LOAD_CHUNKS, {**values, "method": METHOD})
        return [_parse_chunk(row) for row in rows]

    async def store(self, target: EnrichmentTarget, scope_key: UUID, changes: GraphChanges) -> None:
        """Store the entities and relations of a document's chunks, in place of those of earlier calls.

        The caller has locked the document and its search indexes.

        Args:
            target: The document.
            scope_key: Its scope.
            changes: The changes.
        """
        values = {"t": self.tenant_id, "i": target.index_id}
        document = {**values, "kb": target.kb_id, "d": target.document_id, "method": METHOD}
        await self.session.fetch_rows(_REMOVE_RELATIONS, document)
        if changes.chunks:
            emptied = [chunk_id for chunk_id, entities in changes.chunks.items() if not entities.keys]
            rows = format_chunk_rows(changes)
            await self.session.fetch_rows(_REMOVE_EMPTY, {**values, "ids": emptied})
            await self.session.fetch_rows(_STORE_CHUNKS, {**values, "scope": scope_key, "rows": rows})
        deltas = _format_deltas(changes)
        if deltas:
            await self.session.fetch_rows(_ADD_DELTAS, {**values, "rows": json.dumps(deltas, ensure_ascii=False)})
            if scope_key not in OPEN_LEVEL_KEYS:
                private = {**values, "scope": scope_key, "rows": json.dumps(deltas, ensure_ascii=False)}
                await self.session.fetch_rows(_ADD_PRIVATE_DELTAS, private)
        if changes.relations:
            rows = json.dumps(changes.relations, ensure_ascii=False)
            await self.session.fetch_rows(_ADD_RELATIONS, {**values, "rows": rows, "method": METHOD})


def _format_deltas(changes: GraphChanges) -> Sequence[dict[str, object]]:
    added: list[dict[str, object]] = [
        {"key": key, "chunks": chunks, "name": name} for key, (chunks, name) in changes.added.items()
    ]
    removed: list[dict[str, object]] = [
        {"key": key, "chunks": -chunks, "name": None} for key, chunks in changes.removed.items()
    ]
    return [*added, *removed]


def _parse_chunk(row: Record) -> StoredChunk:
    head_length = 0 if row["table_head_length"] is None else row["table_head_length"] + 1
    entities = ChunkEntities(
        row["keys"] or (), row["counts"] or (), row["names"] or (), row["kinds"] or "", row["types"] or ()
    )
    return StoredChunk(
        id=row["id"],
        text=row["content"][head_length:],
        head_length=head_length,
        start=row["start_offset"],
        end=row["end_offset"],
        entities=normalize_entities(entities),
        next_ordinal=row["next_ordinal"],
    )


_LOAD_CHUNKS = parse_statement("""
select c.id, c.content, c.table_head_length, c.start_offset, c.end_offset, e.keys, e.counts, e.names, e.kinds, e.types,
       coalesce((select max(r.ordinal) + 1 from relation r
                  where r.tenant_id = c.tenant_id and r.index_id = c.index_id and r.chunk_id = c.id
                    and r.method <> :method), 0) as next_ordinal
  from chunk c
  left join lateral (select * from chunk_entity e where e.tenant_id = c.tenant_id and e.index_id = c.index_id
                        and e.chunk_id = c.id offset 0) e on true
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.index_id = :i
 order by c.ordinal""")
_REMOVE_RELATIONS = parse_statement("""
delete from relation r using chunk c
 where c.tenant_id = :t and c.kb_id = :kb and c.document_id = :d and c.index_id = :i
   and r.tenant_id = :t and r.index_id = :i and r.chunk_id = c.id and r.method = :method""")
_REMOVE_EMPTY = parse_statement("""
delete from chunk_entity where tenant_id = :t and index_id = :i and chunk_id = any(:ids::uuid[])""")
_STORE_CHUNKS = parse_statement("""
insert into chunk_entity (tenant_id, index_id, chunk_id, scope_key, keys, counts, names, kinds, types)
select :t::uuid, :i::uuid, r.chunk_id, :scope::uuid,
       array(select k.value::int from jsonb_array_elements_text(r.keys) with ordinality k order by k.ordinality),
       array(select k.value::int2 from jsonb_array_elements_text(r.counts) with ordinality k order by k.ordinality),
       array(select k.value from jsonb_array_elements_text(r.names) with ordinality k order by k.ordinality),
       r.kinds,
       case when jsonb_typeof(r.types) = 'array'
            then array(select k.value from jsonb_array_elements_text(r.types) with ordinality k order by k.ordinality)
       end
  from jsonb_to_recordset(:rows::jsonb)
       r(chunk_id uuid, keys jsonb, counts jsonb, names jsonb, kinds text, types jsonb)
on conflict (tenant_id, index_id, chunk_id) do update
   set keys = excluded.keys, counts = excluded.counts, names = excluded.names, kinds = excluded.kinds,
       types = excluded.types""")
_ADD_DELTAS = parse_statement("""
insert into entity (tenant_id, index_id, key, chunks, titles, name)
select :t::uuid, :i::uuid, r.key, r.chunks, 0, r.name
  from jsonb_to_recordset(:rows::jsonb) r(key int, chunks int, name text)""")
_ADD_PRIVATE_DELTAS = parse_statement("""
insert into private_entity_frequency (tenant_id, index_id, scope_key, key, chunks)
select :t::uuid, :i::uuid, s.scope_key, r.key, r.chunks
  from jsonb_to_recordset(:rows::jsonb) r(key int, chunks int)
 cross join (values (:scope::uuid), (all_private_levels())) s(scope_key)""")
_ADD_RELATIONS = parse_statement("""
insert into relation (tenant_id, index_id, chunk_id, ordinal, subject_key, object_key, predicate, start_offset,
                      end_offset, method)
select :t::uuid, :i::uuid, r.chunk_id, r.ordinal, r.subject_key, r.object_key, r.predicate, r.start_offset,
       r.end_offset, :method
  from jsonb_to_recordset(:rows::jsonb)
       r(chunk_id uuid, ordinal int2, subject_key int, object_key int, predicate text, start_offset int,
         end_offset int)""")

"""Rows of the entity graph of a knowledge base, without the ids and keys that every knowledge base has itself."""

from typing import Any
from uuid import UUID

import asyncpg

from app.graph.keys import compute_entity_key

KEY_COLUMNS = ("key", "subject_key", "object_key")
# Rows of the tables of a knowledge base's live graph without its ids and keys. Documents are named by external id.
LIVE = "search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'"
CHUNK_ENTITIES = f"""
select d.external_id, c.ordinal, e.scope_key, u.name, u.count, u.kind, e.types[u.place::int] as type, u.key
  from knowledge_base k join {LIVE}
  join chunk_entity e on e.index_id = i.id join chunk c on c.index_id = e.index_id and c.id = e.chunk_id
  join document d on d.id = c.document_id
  cross join unnest(e.keys, e.counts, e.names, string_to_array(e.kinds, null)) with ordinality
             u(key, count, name, kind, place)
 where k.tenant_id = $1 and k.name = $2"""
ENTITIES = f"""
select e.key, sum(e.chunks)::int as chunks, sum(e.titles)::int as titles, max(e.name collate "C") as name
  from knowledge_base k join {LIVE} join entity e on e.index_id = i.id
 where k.tenant_id = $1 and k.name = $2 group by e.key having sum(e.chunks) <> 0 or sum(e.titles) <> 0"""
PRIVATE_FREQUENCIES = f"""
select p.scope_key, p.key, sum(p.chunks)::int as chunks
  from knowledge_base k join {LIVE} join private_entity_frequency p on p.index_id = i.id
 where k.tenant_id = $1 and k.name = $2 group by 1, 2 having sum(p.chunks) <> 0"""
RELATIONS = f"""
select d.external_id, c.ordinal, r.ordinal as place, r.subject_key, r.predicate, r.object_key, r.start_offset,
       r.end_offset, r.method
  from knowledge_base k join {LIVE}
  join relation r on r.index_id = i.id join chunk c on c.index_id = r.index_id and c.id = r.chunk_id
  join document d on d.id = c.document_id
 where k.tenant_id = $1 and k.name = $2"""


async def read_graph(
    owner: asyncpg.Connection, tenant_id: UUID, kb: str, kb_id: UUID
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the sorted rows of a knowledge base's live graph by table, with names in place of the keys.

    Args:
        owner: Connection of the owner of the tables.
        tenant_id: The tenant.
        kb: Name of the knowledge base. Its documents need external ids.
        kb_id: Id of the knowledge base, the salt of the keys.
    """

    async def fetch(sql: str) -> list[dict[str, Any]]:
        return [dict(row) for row in await owner.fetch(sql, tenant_id, kb)]

    entities = await fetch(ENTITIES)
    names = {row["key"]: row["name"] for row in entities}
    assert all(compute_entity_key(kb_id, name) == key for key, name in names.items())

    def replace_keys(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(names[value] if name in KEY_COLUMNS else value for name, value in row.items())

    tables = {
        "chunk_entity": await fetch(CHUNK_ENTITIES),
        "entity": entities,
        "private_entity_frequency": await fetch(PRIVATE_FREQUENCIES),
        "relation": await fetch(RELATIONS),
    }
    return {table: sorted(map(replace_keys, rows), key=repr) for table, rows in tables.items()}

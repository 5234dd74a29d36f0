"""Include ``entities``: the entities that a chunk names, after the corrections of its knowledge base."""

from collections.abc import Mapping, Sequence

from app.db.driver import DriverReader
from app.db.statements import Record, parse_statement
from app.graph.entity_ids import encode_entity_id
from app.graph.includes.include import Include, IncludedEntity
from app.graph.repository import KIND_NAMES, MAX_COUNT
from app.section_notes.types import SectionedChunk


async def load_entities(
    reader: DriverReader, chunks: Sequence[SectionedChunk]
) -> Mapping[SectionedChunk, Sequence[IncludedEntity]]:
    """Load the entities of chunks, most frequent first, in one statement.

    Args:
        reader: Reader of a transaction of the caller's tenant.
        chunks: Chunks that the caller may read.

    Returns:
        The entities by chunk. Chunks without entities are missing.
    """
    values = {
        "tenants": [chunk.tenant_id for chunk in chunks],
        "indexes": [chunk.index_id for chunk in chunks],
        "chunks": [chunk.chunk_id for chunk in chunks],
        "documents": [chunk.document_id for chunk in chunks],
    }
    rows = await reader.fetch_rows(_ENTITIES, values)
    return {chunks[row["position"]]: _build_entities(row) for row in rows}


def _build_entities(row: Record) -> list[IncludedEntity]:
    """Return the entities of one chunk. Entities that corrections join become one, with the sum of their counts."""
    targets = {
        key: (target, name)
        for key, target, name in zip(
            row["alias_keys"] or (), row["alias_targets"] or (), row["alias_names"] or (), strict=True
        )
    }
    types = row["types"] or [None] * len(row["keys"])
    mentions: dict[int, list[tuple[int, bool, int, str, str, str | None]]] = {}
    for position, (key, count) in enumerate(zip(row["keys"], row["counts"], strict=True)):
        target, corrected_name = targets.get(key, (key, None))
        kind = KIND_NAMES[row["kinds"][position]]
        name = row["names"][position] if corrected_name is None else corrected_name
        mentions.setdefault(target, []).append((count, target == key, -position, name, kind, types[position]))
    entities = []
    for target, group in mentions.items():
        # The spelling of the target itself counts first, else that of its most frequent name.
        _, _, _, name, kind, entity_type = max(group, key=lambda item: (item[1], item[0], item[2]))
        count = min(MAX_COUNT, sum(item[0] for item in group))
        entities.append(IncludedEntity(encode_entity_id(target), name, kind, entity_type, count))
    return sorted(entities, key=lambda entity: (-entity.count, entity.name, entity.id))


INCLUDE = Include("entities", load_entities)
# A split of the chunk's document comes after the merge of the whole knowledge base, so that it counts.
_ENTITIES = parse_statement("""
select (k.position - 1)::int as position, e.keys, e.counts, e.names, e.kinds, e.types,
       a.keys as alias_keys, a.targets as alias_targets, a.names as alias_names
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[], :documents::uuid[])
       with ordinality k(tenant_id, index_id, id, document_id, position)
 cross join lateral (select e.keys, e.counts, e.names, e.kinds, e.types from chunk_entity e
                      where e.tenant_id = k.tenant_id and e.index_id = k.index_id and e.chunk_id = k.id offset 0) e
 cross join lateral (select i.kb_id from search_index i
                      where i.tenant_id = k.tenant_id and i.id = k.index_id offset 0) i
  left join lateral (
    select array_agg(a.key order by a.document_id nulls first) as keys,
           array_agg(a.target_key order by a.document_id nulls first) as targets,
           array_agg(a.target_name order by a.document_id nulls first) as names
      from entity_alias a
     where a.tenant_id = k.tenant_id and a.kb_id = i.kb_id and a.key = any(e.keys)
       and (a.document_id is null or a.document_id = k.document_id) offset 0) a on true""")

"""Rows of the entity graph for new chunks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.db.session import Session
from app.db.statements import parse_statement
from app.documents.scopes import OPEN_LEVEL_KEYS
from app.graph.keys import compute_entity_key
from app.graph.types import ChunkGraph

MAX_COUNT = 32_767
"""Highest stored number of occurrences of an entity in a chunk."""

KIND_LETTERS: Mapping[str, str] = {
    "title": "t", "source": "s", "heading": "h", "name": "n", "identifier": "i", "quoted": "q", "metadata": "m",
    "given": "g", "model": "l",
}  # fmt: skip
"""Stored letters of the kinds of entities. Every other kind is stored as a type."""

TYPED_KIND = "x"
KIND_NAMES: Mapping[str, str] = {letter: kind for kind, letter in KIND_LETTERS.items()} | {TYPED_KIND: "typed"}
"""Kinds of entities by their stored letters. The type of a ``typed`` entity says more."""

TITLE_LETTERS = "tsh"
"""Kinds that count as a title of their chunk."""


@dataclass(frozen=True, slots=True)
class GraphLocation:
    """Target of the rows: knowledge base, search index, and scope of the document."""

    kb_id: UUID
    index_id: UUID
    scope_key: UUID


class GraphRepository:
    """Statements that store the entities and relations of chunks for one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add_chunks(
        self, location: GraphLocation, chunk_ids: Sequence[UUID], graphs: Sequence[ChunkGraph]
    ) -> None:
        """Store the entities and relations of chunks that this transaction has added to a search index.

        Args:
            location: Target of the rows.
            chunk_ids: Ids of the chunks.
            graphs: Entities and relations of each chunk.
        """
        rows = _to_rows(location.kb_id, chunk_ids, graphs)
        if not rows["chunk_ids"]:
            return
        statement = _ADD_OPEN_CHUNKS if location.scope_key in OPEN_LEVEL_KEYS else _ADD_PRIVATE_CHUNKS
        values = {"t": self.tenant_id, "i": location.index_id, "scope": location.scope_key}
        await self.session.fetch_rows(statement, {**values, **rows})
        relations = _to_relation_rows(location.kb_id, chunk_ids, graphs)
        if relations["ids"]:
            await self.session.fetch_rows(_ADD_RELATIONS, {**values, **relations})


def _to_rows(kb_id: UUID, chunk_ids: Sequence[UUID], graphs: Sequence[ChunkGraph]) -> dict[str, Any]:
    """Return the parameters of the rows of chunks and of the changes of the entities' counts."""
    rows: dict[str, list[Any]] = {name: [] for name in ("chunk_ids", "keys", "counts", "names", "kinds", "types")}
    changes: dict[int, list[Any]] = {}
    keys_by_text: dict[str, int] = {}
    for chunk_id, graph in zip(chunk_ids, graphs, strict=True):
        entries: dict[int, tuple[str, int, str, str, str | None]] = {}
        for mention in graph.mentions:
            key_text = mention.key_text
            key = keys_by_text.get(key_text)
            if key is None:
                key = keys_by_text[key_text] = compute_entity_key(kb_id, key_text)
            letter = KIND_LETTERS.get(mention.kind, TYPED_KIND)
            entity_type = graph.types.get(key_text) or (mention.kind if letter == TYPED_KIND else None)
            # Of two names with the same key, the first counts.
            entries.setdefault(key, (mention.name, min(mention.count, MAX_COUNT), letter, key_text, entity_type))
        if not entries:
            continue
        keys = sorted(entries)
        values = [entries[key] for key in keys]
        rows["chunk_ids"].append(chunk_id)
        rows["keys"].append(_format_numbers(keys))
        rows["counts"].append(_format_numbers(value[1] for value in values))
        rows["names"].append(_format_texts(value[0] for value in values))
        rows["kinds"].append("".join(value[2] for value in values))
        has_types = any(value[4] for value in values)
        rows["types"].append(_format_texts(value[4] for value in values) if has_types else None)
        for key, (_, _, letter, key_text, _) in zip(keys, values, strict=True):
            change = changes.setdefault(key, [0, 0, key_text])
            change[0] += 1
            change[1] += letter in TITLE_LETTERS
            change[2] = max(change[2], key_text)
    return {
        **rows,
        "entity_keys": _format_numbers(changes),
        "entity_chunks": _format_numbers(change[0] for change in changes.values()),
        "entity_titles": _format_numbers(change[1] for change in changes.values()),
        "entity_names": [change[2] for change in changes.values()],
    }


def _to_relation_rows(kb_id: UUID, chunk_ids: Sequence[UUID], graphs: Sequence[ChunkGraph]) -> dict[str, Any]:
    placed_relations = [
        (chunk_id, ordinal, relation)
        for chunk_id, graph in zip(chunk_ids, graphs, strict=True)
        for ordinal, relation in enumerate(graph.relations)
    ]
    return {
        "ids": [chunk_id for chunk_id, _, _ in placed_relations],
        "ordinals": [ordinal for _, ordinal, _ in placed_relations],
        "subjects": [compute_entity_key(kb_id, relation.subject_text) for _, _, relation in placed_relations],
        "objects": [compute_entity_key(kb_id, relation.object_text) for _, _, relation in placed_relations],
        "predicates": [relation.predicate for _, _, relation in placed_relations],
        "starts": [relation.start for _, _, relation in placed_relations],
        "ends": [relation.end for _, _, relation in placed_relations],
        "methods": [relation.method for _, _, relation in placed_relations],
    }


def _format_numbers(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _format_texts(texts: Iterable[str | None]) -> str:
    """Format a Postgres array of texts as text, because the driver does not send rows of unequal length."""
    return "{" + ",".join("null" if text is None else _quote(text) for text in texts) + "}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ADD_CHUNKS = """
with entities as (
  insert into chunk_entity (tenant_id, index_id, chunk_id, scope_key, keys, counts, names, kinds, types)
  select :t::uuid, :i::uuid, u.id, :scope::uuid, u.keys::int4[], u.counts::int2[], u.names::text[], u.kinds,
         u.types::text[]
    from unnest(:chunk_ids::uuid[], :keys::text[], :counts::text[], :names::text[], :kinds::text[], :types::text[])
         u(id, keys, counts, names, kinds, types)
){private}
insert into entity (tenant_id, index_id, key, chunks, titles, name)
select :t::uuid, :i::uuid, u.*
  from unnest(:entity_keys::text::int4[], :entity_chunks::text::int4[], :entity_titles::text::int4[],
              :entity_names::text[]) u"""
_ADD_PRIVATE = """, private as (
  insert into private_entity_frequency (tenant_id, index_id, scope_key, key, chunks)
  select :t::uuid, :i::uuid, s.scope_key, u.key, u.chunks
    from unnest(:entity_keys::text::int4[], :entity_chunks::text::int4[]) u(key, chunks)
   cross join (values (:scope::uuid), (all_private_levels())) s(scope_key)
)"""
_ADD_OPEN_CHUNKS, _ADD_PRIVATE_CHUNKS = (
    parse_statement(_ADD_CHUNKS.replace("{private}", more)) for more in ("", _ADD_PRIVATE)
)
_ADD_RELATIONS = parse_statement("""
insert into relation (tenant_id, index_id, chunk_id, ordinal, subject_key, object_key, predicate, start_offset,
                      end_offset, method)
select :t::uuid, :i::uuid, u.*
  from unnest(:ids::uuid[], :ordinals::int2[], :subjects::int4[], :objects::int4[], :predicates::text[],
              :starts::int4[], :ends::int4[], :methods::text[]) u""")

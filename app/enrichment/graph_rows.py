"""Rows of the entity graph that come from a chat model: entities and relations of the chunks that name them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from app.enrichment.reply import contains_name, count_name, join_words
from app.enrichment.types import EnrichedSection, FoundRelation
from app.graph.extraction.names import normalize_name
from app.graph.keys import compute_entity_key
from app.graph.repository import KIND_LETTERS, MAX_COUNT

MODEL_LETTER = KIND_LETTERS["model"]
MAX_ENTITIES_PER_CHUNK = 64
MAX_RELATIONS_PER_CHUNK = 64
MAX_ORDINAL = 32_767


@dataclass(frozen=True, slots=True)
class ChunkEntities:
    """Entities of a chunk as stored: parallel lists, ordered by key."""

    keys: Sequence[int] = ()
    counts: Sequence[int] = ()
    names: Sequence[str] = ()
    kinds: str = ""
    types: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """Chunk of the live search index with its entities.

    Attributes:
        id: Id of the chunk.
        text: Text of the chunk without the repeated head of a table.
        head_length: Length of the head with its line break.
        start: Offset of the text in the document.
        end: Offset behind the text.
        entities: Stored entities.
        next_ordinal: Ordinal of the first relation that is added.
    """

    id: UUID
    text: str
    head_length: int
    start: int
    end: int
    entities: ChunkEntities
    next_ordinal: int


@dataclass(slots=True)
class GraphChanges:
    """Changes of the rows of the graph.

    Attributes:
        chunks: New entities of the chunks that change.
        added: Number of chunks that an entity gets, with its normalized name, by its key.
        removed: Number of chunks that an entity loses, by its key.
        relations: New rows of relations.
    """

    chunks: dict[UUID, ChunkEntities] = field(default_factory=dict)
    added: dict[int, tuple[int, str]] = field(default_factory=dict)
    removed: Counter[int] = field(default_factory=Counter)
    relations: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _ChunkFindings:
    """Entities by key, with name, normalized name, count and type, and relations that the model found in a chunk."""

    entities: dict[int, tuple[str, str, int, str | None]] = field(default_factory=dict)
    relations: dict[FoundRelation, tuple[int, int]] = field(default_factory=dict)


def compute_graph_changes(
    kb_id: UUID, chunks: Sequence[StoredChunk], sections: Sequence[EnrichedSection]
) -> GraphChanges:
    """Compare the entities and relations of a chat model with the stored rows. The function blocks.

    An entity belongs to each chunk of its section whose text has the name. A relation belongs to the first chunk that
    has its evidence, its subject and its object.

    Args:
        kb_id: The knowledge base.
        chunks: All chunks of the document, in reading order.
        sections: Enriched sections of the document.

    Returns:
        The changes. Entities of earlier calls that the sections do not have are removed.
    """
    findings = {chunk.id: _ChunkFindings() for chunk in chunks}
    for section in sections:
        if section.reply.entities or section.reply.relations:
            overlapping = [chunk for chunk in chunks if _has_overlap(chunk, section.call.ranges)]
            _assign_entities(kb_id, section, overlapping, findings)
            _assign_relations(kb_id, section, overlapping, findings)
    changes = GraphChanges()
    for chunk in chunks:
        _compare_chunk(kb_id, chunk, findings[chunk.id], changes)
    return changes


def _has_overlap(chunk: StoredChunk, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(chunk.start < end and start < chunk.end for start, end in ranges)


def _assign_entities(
    kb_id: UUID, section: EnrichedSection, chunks: Sequence[StoredChunk], findings: Mapping[UUID, _ChunkFindings]
) -> None:
    for entity in section.reply.entities:
        key_text = normalize_name(entity.name)
        key = compute_entity_key(kb_id, key_text)
        for chunk in chunks:
            entities = findings[chunk.id].entities
            if key not in entities and len(entities) < MAX_ENTITIES_PER_CHUNK:
                count = count_name(chunk.text, entity.name)
                if count:
                    entities[key] = (entity.name, key_text, min(count, MAX_COUNT), entity.type)


def _assign_relations(
    kb_id: UUID, section: EnrichedSection, chunks: Sequence[StoredChunk], findings: Mapping[UUID, _ChunkFindings]
) -> None:
    for relation in section.reply.relations:
        for chunk in chunks:
            mentions = findings[chunk.id]
            span = find_evidence(chunk.text, relation.evidence)
            names = (relation.subject, relation.object)
            if span is None or not all(contains_name(chunk.text, name) for name in names):
                continue
            if len(mentions.relations) < MAX_RELATIONS_PER_CHUNK and len(mentions.entities) < MAX_ENTITIES_PER_CHUNK:
                for name in names:
                    key_text = normalize_name(name)
                    entry = (name, key_text, min(count_name(chunk.text, name), MAX_COUNT), None)
                    mentions.entities.setdefault(compute_entity_key(kb_id, key_text), entry)
                mentions.relations[relation] = span
            break


def find_evidence(text: str, evidence: str) -> tuple[int, int] | None:
    """Return the range of a passage in a text, or None. Runs of white space count as one space.

    Args:
        text: Text of a chunk.
        evidence: Passage with single spaces.
    """
    position = text.find(evidence)
    if position >= 0:
        return position, position + len(evidence)
    if evidence not in join_words(text):
        return None
    places = [index for index, character in enumerate(text) if not character.isspace()]
    dense = "".join(text.split())
    target = "".join(evidence.split())
    start = dense.find(target)
    return places[start], places[start + len(target) - 1] + 1


def _compare_chunk(kb_id: UUID, chunk: StoredChunk, mentions: _ChunkFindings, changes: GraphChanges) -> None:
    stored = chunk.entities
    rows = list(zip(stored.keys, stored.counts, stored.names, stored.kinds, stored.types, strict=True))
    others = {row[0]: row for row in rows if row[3] != MODEL_LETTER}
    former = {row[0] for row in rows if row[3] == MODEL_LETTER}
    own = {key: entity for key, entity in mentions.entities.items() if key not in others}
    merged = dict(others)
    for key, (name, key_text, count, entity_type) in own.items():
        merged[key] = (key, count, name, MODEL_LETTER, entity_type)
        if key not in former:
            chunks, _ = changes.added.get(key, (0, ""))
            changes.added[key] = (chunks + 1, key_text)
    for key in former - own.keys():
        changes.removed[key] += 1
    ordered = [merged[key] for key in sorted(merged)]
    if ordered != rows:
        changes.chunks[chunk.id] = _to_entities(ordered)
    for ordinal, (relation, span) in enumerate(mentions.relations.items(), chunk.next_ordinal):
        if ordinal <= MAX_ORDINAL:
            changes.relations.append(_to_relation_row(kb_id, chunk, ordinal, relation, span))


def _to_entities(rows: Sequence[tuple[int, int, str, str, str | None]]) -> ChunkEntities:
    return ChunkEntities(
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        "".join(row[3] for row in rows),
        [row[4] for row in rows],
    )


def _to_relation_row(
    kb_id: UUID, chunk: StoredChunk, ordinal: int, relation: FoundRelation, span: tuple[int, int]
) -> dict[str, Any]:
    return {
        "chunk_id": str(chunk.id),
        "ordinal": ordinal,
        "subject_key": compute_entity_key(kb_id, normalize_name(relation.subject)),
        "object_key": compute_entity_key(kb_id, normalize_name(relation.object)),
        "predicate": relation.predicate,
        "start_offset": span[0] + chunk.head_length,
        "end_offset": span[1] + chunk.head_length,
    }


def normalize_entities(entities: ChunkEntities) -> ChunkEntities:
    """Return stored entities with one type for each key; entities without a type have None."""
    return entities if entities.types else replace(entities, types=[None] * len(entities.keys))


def format_chunk_rows(changes: GraphChanges) -> str:
    """Return the new entities of chunks as JSON. Chunks without entities are left out."""
    rows = [
        {
            "chunk_id": str(chunk_id),
            "keys": list(entities.keys),
            "counts": list(entities.counts),
            "names": list(entities.names),
            "kinds": entities.kinds,
            "types": list(entities.types) if any(entities.types) else None,
        }
        for chunk_id, entities in changes.chunks.items()
        if entities.keys
    ]
    return json.dumps(rows, ensure_ascii=False)

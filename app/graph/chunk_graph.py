"""Extraction of the entities and relations of a document's chunks."""

from collections.abc import Sequence
from dataclasses import replace

from app.documents.provided_graph import ProvidedGraph
from app.graph.extraction.extractor import ChunkText, extract_mentions
from app.graph.extraction.names import normalize_name
from app.graph.extraction.types import Entity, EntityMention
from app.graph.types import ChunkGraph, RelationMention

PROVIDED_METHOD = "given"


def extract_chunk_graph(
    chunk: ChunkText,
    provided: ProvidedGraph,
    *,
    metadata_keys: Sequence[str],
    plugin_entities: Sequence[Entity] = (),
) -> ChunkGraph:
    """Return the entities and relations of a chunk. The function blocks.

    Args:
        chunk: Text of the chunk and of its surroundings. Names of provided entities are added to it.
        provided: Entities and relations that came with the chunk.
        metadata_keys: Metadata keys whose values are entities.
        plugin_entities: Entities that plugins found in the chunk.
    """
    entities = provided.list_entities()
    mentions = extract_mentions(
        replace(chunk, given=tuple(dict.fromkeys(entity.name for entity in entities))) if entities else chunk,
        metadata_keys=metadata_keys,
        entities=plugin_entities,
    )
    if not entities:
        return ChunkGraph(mentions)
    counts: dict[str, int] = {}
    types: dict[str, str] = {}
    for entity in entities:
        key_text = normalize_name(entity.name)
        counts[key_text] = max(counts.get(key_text, 1), entity.count)
        if entity.type is not None:
            types.setdefault(key_text, entity.type)
    mentions = [_raise_count(mention, counts.get(mention.key_text, 1)) for mention in mentions]
    key_texts = {mention.key_text for mention in mentions}
    return ChunkGraph(
        mentions, _list_provided_relations(provided, key_texts), {key: types[key] for key in types if key in key_texts}
    )


def _raise_count(mention: EntityMention, count: int) -> EntityMention:
    return mention if mention.count >= count else replace(mention, count=count)


def _list_provided_relations(provided: ProvidedGraph, key_texts: set[str]) -> list[RelationMention]:
    """Return the relations whose ends are entities of the chunk, without repetitions."""
    relations: dict[RelationMention, None] = {}
    for relation in provided.relations:
        subject, object_ = normalize_name(relation.subject), normalize_name(relation.object)
        if subject in key_texts and object_ in key_texts:
            relations[RelationMention(subject, object_, relation.predicate, PROVIDED_METHOD)] = None
    return list(relations)

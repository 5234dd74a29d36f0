"""Names and paths of the results of a walk, for explanations and for the reply."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.driver import DriverReader
from app.db.session import DatabaseUnavailable
from app.db.statements import parse_statement
from app.graph.entity_ids import encode_entity_id
from app.graph.repository import KIND_NAMES
from app.graph.subgraph import Subgraph, SubgraphEdge, SubgraphNode
from app.ids import encode_id
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.graph_walk.types import Aliases, WalkOutcome
from app.retrieval.graph_walk.walker import GraphWalker
from app.retrieval.retrievers.executor import HybridRetriever
from app.retrieval.search_run import get_failure_reason
from app.retrieval.types import ChunkKey, Hit

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """Entity as a chunk names it."""

    name: str
    kind: str
    type: str | None
    weight: float


@dataclass(frozen=True, slots=True)
class StoredRelation:
    """Relation of a chunk, with the keys of its ends after corrections."""

    chunk: ChunkKey
    subject: int
    object: int
    predicate: str


@dataclass(frozen=True, slots=True)
class ChunkNames:
    """Entities of some chunks, by key after corrections, and their relations."""

    entities: Mapping[ChunkKey, Mapping[int, NamedEntity]]
    relations: Sequence[StoredRelation]


async def describe_walk(retriever: HybridRetriever, walker: GraphWalker, hits: list[Hit]) -> list[Hit]:
    """Add the names on the way to each hit, and store the subgraph of the hits in the search run.

    Nothing is read if the caller wants neither an explanation nor a subgraph.

    Args:
        retriever: Retriever of the search.
        walker: The walker after its walk.
        hits: Hits of the search, which the caller may read.

    Returns:
        The hits in the same order.
    """
    outcome, has_subgraph = walker.outcome, walker.settings.subgraph != "none"
    has_walked = bool(outcome.paths or (has_subgraph and any(outcome.query_entities.values())))
    if not hits or not has_walked or not (retriever.explain or has_subgraph):
        return hits
    try:
        names = await _load_names(retriever, outcome, hits)
    except (DBAPIError, DatabaseUnavailable, TimeoutError) as exc:
        logger.warning("search.graph_names_failed", error=exc)
        retriever.search_run.degrade("graph", get_failure_reason(exc))
        return hits
    if has_subgraph:
        retriever.search_run.subgraphs.append(build_subgraph(outcome, names, hits))
    if walker.settings.subgraph == "text":
        retriever.search_run.serializer_names.append(walker.settings.serializer)
    return [replace(hit, path_names=tuple(_list_path_names(hit.key, outcome, names))) for hit in hits]


def build_subgraph(outcome: WalkOutcome, names: ChunkNames, hits: Sequence[Hit]) -> Subgraph:
    """Build the subgraph of the hits: the entities of their paths and of the query, and those related to them (pure).

    Args:
        outcome: Outcome of the walk.
        names: Entities and relations of the hits.
        hits: Hits of the search.
    """
    wanted = {
        (hit.key[:16], entity) for hit in hits if (path := outcome.paths.get(hit.key)) for entity in path.entities
    }
    wanted |= {(index, entity.key) for index, entities in outcome.query_entities.items() for entity in entities}
    for relation in names.relations:
        ends = {(relation.chunk[:16], relation.subject), (relation.chunk[:16], relation.object)}
        wanted |= ends if ends & wanted else set()
    nodes: dict[str, SubgraphNode] = {}
    edges: list[SubgraphEdge] = []
    for hit in hits:
        chunk_id = encode_id("chk", hit.chunk.id)
        for key, entity in names.entities.get(hit.key, {}).items():
            if (hit.key[:16], key) not in wanted:
                continue
            entity_id = encode_entity_id(key)
            nodes.setdefault(entity_id, SubgraphNode(entity_id, entity.name, entity.kind, entity.type))
            edges.append(SubgraphEdge("names", chunk_id, entity_id, chunk_id, weight=entity.weight))
    for relation in names.relations:
        subject, object_ = encode_entity_id(relation.subject), encode_entity_id(relation.object)
        if subject in nodes and object_ in nodes:
            chunk_id = encode_id("chk", UUID(bytes=relation.chunk[16:]))
            edges.append(SubgraphEdge("relation", subject, object_, chunk_id, relation.predicate))
    paths = {
        encode_id("chk", hit.chunk.id): [encode_entity_id(entity) for entity in path.entities]
        for hit in hits
        if (path := outcome.paths.get(hit.key))
    }
    return Subgraph([*nodes.values()], edges, paths)


def _list_path_names(key: ChunkKey, outcome: WalkOutcome, names: ChunkNames) -> Iterator[str]:
    """Yield the names of the entities on the way to a chunk, as the chunk or the query writes them."""
    path = outcome.paths.get(key)
    query_names = {entity.key: entity.name for entity in outcome.query_entities.get(key[:16], ())}
    for entity in () if path is None else path.entities:
        named = names.entities.get(key, {}).get(entity)
        if named is None and path is not None and path.source is not None:
            named = names.entities.get(path.source, {}).get(entity)
        name = named.name if named is not None else query_names.get(entity)
        if name is not None:
            yield name


async def _load_names(retriever: HybridRetriever, outcome: WalkOutcome, hits: Sequence[Hit]) -> ChunkNames:
    keys = dict.fromkeys(hit.key for hit in hits)
    keys |= dict.fromkeys(path.source for hit in hits if (path := outcome.paths.get(hit.key)) and path.source)
    timeout_seconds = retriever.search_run.compute_database_timeout(time_budget.READING)
    tenants = [retriever.indexes[key[:16]].tenant_id for key in keys]
    with retriever.search_run.time_step("graph"):
        async with retriever.db.read_transaction(statement_timeout_seconds=timeout_seconds) as reader:
            return await load_chunk_names(reader, [*keys], tenants, outcome.aliases)


async def load_chunk_names(
    reader: DriverReader, keys: Sequence[ChunkKey], tenants: Sequence[UUID], aliases: Mapping[bytes, Aliases]
) -> ChunkNames:
    """Load the entities and relations of chunks that the caller may read.

    Args:
        reader: Transaction of the tenant.
        keys: Keys of the chunks.
        tenants: Owner of each chunk.
        aliases: Corrections, by the 16 bytes of the search index's id.
    """
    values = {
        "tenants": tenants,
        "indexes": [key[:16].hex() for key in keys],
        "chunks": [key[16:].hex() for key in keys],
    }
    entities: dict[ChunkKey, dict[int, NamedEntity]] = {}
    documents: dict[ChunkKey, UUID] = {}
    for row in await reader.fetch_rows(_NAMES, values):
        key = row[0].bytes + row[1].bytes
        documents[key] = row[2]
        entities[key] = dict(_read_entities(row, aliases.get(key[:16], Aliases())))
    relations: list[StoredRelation] = []
    for row in await reader.fetch_rows(_RELATIONS, values):
        key = row[0].bytes + row[1].bytes
        alias, document = aliases.get(key[:16], Aliases()), documents.get(key)
        relations.append(StoredRelation(key, alias.resolve(row[2], document), alias.resolve(row[3], document), row[4]))
    return ChunkNames(entities, relations)


def _read_entities(row: Sequence[Any], aliases: Aliases) -> Iterator[tuple[int, NamedEntity]]:
    _, _, document, keys, counts, names, kinds, types = row
    for position, key in enumerate(keys):
        entity_type = None if types is None else types[position]
        kind = KIND_NAMES[kinds[position]]
        weight = round(1 + math.log(counts[position]), 6)
        yield aliases.resolve(key, document), NamedEntity(names[position], kind, entity_type, weight)


_NAMES = parse_statement("""
select e.index_id, e.chunk_id, c.document_id, e.keys, e.counts, e.names, e.kinds, e.types
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from chunk_entity e
                      where e.tenant_id = k.tenant_id and e.index_id = k.index_id and e.chunk_id = k.id offset 0) e
 cross join lateral (select c.document_id from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c""")
_RELATIONS = parse_statement("""
select r.index_id, r.chunk_id, r.subject_key, r.object_key, r.predicate
  from unnest(:tenants::uuid[], :indexes::uuid[], :chunks::uuid[]) k(tenant_id, index_id, id)
 cross join lateral (select * from relation r
                      where r.tenant_id = k.tenant_id and r.index_id = k.index_id and r.chunk_id = k.id
                      order by r.ordinal offset 0) r""")

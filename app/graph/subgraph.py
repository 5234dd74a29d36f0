"""Part of the entity graph that a search used."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

EdgeKind = Literal["names", "relation"]


@dataclass(frozen=True, slots=True)
class SubgraphNode:
    """Entity of a subgraph.

    Attributes:
        id: Public id of the entity.
        name: Name as a chunk of the results writes it.
        kind: Kind of the entity, such as ``title``, ``name`` or ``identifier``.
        type: Type by an extractor or the caller, such as ``person``; None if it is unknown.
    """

    id: str
    name: str
    kind: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class SubgraphEdge:
    """Edge of a subgraph.

    Attributes:
        kind: ``names`` joins a chunk with an entity that it names. ``relation`` joins two entities.
        source: Public id of a chunk, or of the subject of a relation.
        target: Public id of an entity.
        chunk_id: Public id of the chunk that is the evidence.
        predicate: Predicate of a relation; None for ``names``.
        weight: 1 + ln(count), where count says how often the chunk names the entity; None for a relation.
    """

    kind: EdgeKind
    source: str
    target: str
    chunk_id: str
    predicate: str | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Entities, edges and paths that connect the results of a search.

    Attributes:
        nodes: Entities, most important first.
        edges: Edges between the entities and the chunks of the results.
        paths: For each result that the walk reached, the ids of the entities from its start to the result.
    """

    nodes: Sequence[SubgraphNode] = ()
    edges: Sequence[SubgraphEdge] = ()
    paths: Mapping[str, Sequence[str]] = field(default_factory=dict)


def merge_subgraphs(subgraphs: Sequence[Subgraph], chunk_ids: Collection[str]) -> Subgraph:
    """Merge the subgraphs of the parts of a search, and leave out chunks that are no results.

    Args:
        subgraphs: Subgraphs of the parts.
        chunk_ids: Public ids of the chunks of the results.
    """
    edges = dict.fromkeys(edge for part in subgraphs for edge in part.edges if edge.chunk_id in chunk_ids)
    paths = {chunk: path for part in subgraphs for chunk, path in part.paths.items() if chunk in chunk_ids}
    used = {end for edge in edges for end in (edge.source, edge.target)}
    used.update(entity for path in paths.values() for entity in path)
    nodes = {node.id: node for part in subgraphs for node in part.nodes if node.id in used}
    return Subgraph([*nodes.values()], [*edges], paths)

"""Part of the entity graph that a search used."""

from collections.abc import Mapping, Sequence
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
        weight: Weight of the edge in the walk; None for a relation.
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
        paths: For each result that the walk reached, the ids of the entities and chunks from its start to the result.
    """

    nodes: Sequence[SubgraphNode] = ()
    edges: Sequence[SubgraphEdge] = ()
    paths: Mapping[str, Sequence[str]] = field(default_factory=dict)

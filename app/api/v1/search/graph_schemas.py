"""Schemas of the part of the entity graph that a search used."""

from typing import Literal

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.graph.subgraph import Subgraph


class GraphNodeOut(BaseModel):
    """Entity: a name that chunks share."""

    id: str = Field(description="Id of the entity.", examples=["ent_1f00c2a7"])
    name: str = Field(description="Name as a chunk of the results writes it.", examples=["Stephen Warbeck"])
    kind: str = Field(
        description="Kind of the entity, such as `title`, `heading`, `name` or `identifier`.", examples=["name"]
    )
    type: str | None = Field(
        description="Type that an extractor or the uploader gave, such as `person`; null if it is unknown.",
        examples=["person"],
    )


class GraphEdgeOut(BaseModel):
    """Edge between a chunk and an entity that it names, or between two entities."""

    kind: Literal["names", "relation"] = Field(
        description="`names`: the chunk `source` names the entity `target`. `relation`: a relation of two entities.",
        examples=["names"],
    )
    source: str = Field(
        description="Id of a chunk, or of the entity that is the subject.", examples=[example_values.CHUNK_ID]
    )
    target: str = Field(description="Id of an entity.", examples=["ent_1f00c2a7"])
    chunk_id: str = Field(description="Id of the chunk that is the evidence.", examples=[example_values.CHUNK_ID])
    predicate: str | None = Field(description="Predicate of a relation; null for `names`.", examples=[None])


class GraphOut(BaseModel):
    """Entities, edges and paths that connect the results."""

    nodes: list[GraphNodeOut] = Field(description="Entities of the paths, and those of the query.")
    edges: list[GraphEdgeOut] = Field(description="Edges between the results and the entities.")
    paths: dict[str, list[str]] = Field(
        description="Ids of the entities on the way to each result that the walk reached, by the id of its chunk.",
        examples=[{example_values.CHUNK_ID: ["ent_1f00c2a7"]}],
    )


def to_graph_out(subgraph: Subgraph | None) -> GraphOut | None:
    """Convert a subgraph to its schema; None stays None."""
    if subgraph is None:
        return None
    return GraphOut(
        nodes=[GraphNodeOut(id=node.id, name=node.name, kind=node.kind, type=node.type) for node in subgraph.nodes],
        edges=[
            GraphEdgeOut(
                kind=edge.kind,
                source=edge.source,
                target=edge.target,
                chunk_id=edge.chunk_id,
                predicate=edge.predicate,
            )
            for edge in subgraph.edges
        ],
        paths={chunk: list(path) for chunk, path in subgraph.paths.items()},
    )

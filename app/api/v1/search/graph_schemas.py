"""Schemas of the part of the entity graph that a search used."""

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.api.v1.entities.entity_schemas import GraphEdgeOut, GraphNodeOut, to_graph_edges_out, to_graph_nodes_out
from app.graph.subgraph import Subgraph


class GraphOut(BaseModel):
    """Entities, edges and paths that connect the results."""

    nodes: list[GraphNodeOut] = Field(description="Entities of the paths, and those of the query.")
    edges: list[GraphEdgeOut] = Field(description="Edges between the results and the entities.")
    text: str | None = Field(
        None,
        description="The graph as one text for a model, by the serializer of the search. It counts as a result. Only "
        "present with `subgraph: text`.",
        examples=["Connections between the passages:\n- Stephen Warbeck is named in: Shakespeare in Love; Bees."],
        exclude_if=lambda text: text is None,
    )
    paths: dict[str, list[str]] = Field(
        description="Ids of the entities on the way to each result that the walk reached, by the id of its chunk.",
        examples=[{example_values.CHUNK_ID: ["ent_1f00c2a7"]}],
    )


def to_graph_out(subgraph: Subgraph | None, text: str | None) -> GraphOut | None:
    """Convert a subgraph and its text to their schema; None stays None."""
    if subgraph is None:
        return None
    return GraphOut(
        text=text,
        nodes=to_graph_nodes_out(subgraph.nodes),
        edges=to_graph_edges_out(subgraph.edges),
        paths={chunk: list(path) for chunk, path in subgraph.paths.items()},
    )

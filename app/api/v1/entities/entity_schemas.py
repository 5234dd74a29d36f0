"""Schemas of entities."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.schemas import ListResponse
from app.graph.entities.document_graph import MAX_EDGES, MAX_NODES, DocumentGraph
from app.graph.entities.types import EntityChunk, EntityDetail, EntityNeighbour, EntitySummary
from app.graph.entity_ids import encode_entity_id
from app.graph.subgraph import SubgraphEdge, SubgraphNode
from app.ids import encode_id
from app.warnings import ServiceWarning, WarningCode

NAME = "Stephen Warbeck"


class EntityOut(BaseModel):
    """Entity that readable chunks name."""

    id: str = Field(
        description="Id of the entity. It depends on the knowledge base and on the name, so a reindex keeps it.",
        examples=[example_values.ENTITY_ID],
    )
    name: str = Field(description="Name as most readable chunks write it.", examples=[NAME])
    kinds: list[str] = Field(
        description="Where chunks name the entity: `title`, `source`, `heading`, `name`, `identifier`, `quoted`, "
        "`metadata`, `given`, or `typed` for the entities of an extractor.",
        examples=[["name", "title"]],
    )
    type: str | None = Field(
        description="Most frequent type by an extractor or the uploader; null if it is unknown.", examples=["person"]
    )
    chunks: int = Field(description="Number of readable chunks that name the entity.", examples=[12])
    titles: int = Field(
        description="Number of these chunks whose title, heading or source name is the entity.", examples=[3]
    )


class EntityList(ListResponse[EntityOut]):
    """Page of entities."""

    warnings: list[WarningOut] = Field(
        description="Warnings, such as `graph_missing` for a search index without a graph.", examples=[[]]
    )


class EntityChunkOut(BaseModel):
    """Chunk that names an entity."""

    id: str = Field(description="Id of the chunk.", examples=[example_values.CHUNK_ID])
    document_id: str = Field(description="Id of its document.", examples=[example_values.DOCUMENT_ID])
    source: str = Field(description="Name of the document.", examples=["films.pdf"])
    chunk_index: int = Field(description="Index of the chunk in its document, from 0.", examples=[3])
    count: int = Field(description="Number of times that the chunk names the entity.", examples=[2])
    name: str = Field(description="Name as the chunk writes it.", examples=["Warbeck"])
    text: str = Field(description="Text of the chunk.", examples=["The music is by Stephen Warbeck."])


class NeighbourRelationOut(BaseModel):
    """Relation between an entity and a neighbour."""

    predicate: str = Field(description="The relation.", examples=["composed"])
    direction: Literal["out", "in"] = Field(
        description="`out` if the entity is the subject, `in` if it is the object.", examples=["out"]
    )
    chunks: int = Field(description="Number of readable chunks that are evidence.", examples=[1])


class NeighbourOut(EntityOut):
    """Entity that shares chunks with another."""

    shared_chunks: int = Field(description="Number of readable chunks that name both.", examples=[4])
    weight: float = Field(
        description="`shared_chunks` divided by the geometric mean of both numbers of chunks, from 0 to 1.",
        examples=[0.67],
    )
    relations: list[NeighbourRelationOut] = Field(description="Relations between both, most evidence first.")


class AliasNameOut(BaseModel):
    """Entity that a correction leads to another."""

    id: str = Field(description="Id of the entity.", examples=[example_values.OTHER_ENTITY_ID])
    name: str = Field(description="Name as most readable chunks write it.", examples=["S. Warbeck"])


class EntityDetailOut(EntityOut):
    """Entity with its chunks and neighbours."""

    aliases: list[AliasNameOut] = Field(
        description="Entities that corrections lead to this one, if readable chunks name them."
    )
    chunk_list: list[EntityChunkOut] = Field(description="Page of the readable chunks, by document and index.")
    next_cursor: str | None = Field(
        description="Cursor of the next page of `chunk_list`; null on the last page.", examples=[None]
    )
    degree: int = Field(description="Number of entities that share a readable chunk with this one.", examples=[31])
    neighbours: list[NeighbourOut] = Field(description="Up to 50 neighbours, the highest weight first.")
    truncated: bool = Field(
        description="Whether `degree` and `neighbours` come from the first 2,000 chunks only.", examples=[False]
    )


class GraphNodeOut(BaseModel):
    """Entity in a graph."""

    id: str = Field(description="Id of the entity.", examples=[example_values.ENTITY_ID])
    name: str = Field(description="Name as the first chunk writes it.", examples=[NAME])
    kind: str = Field(description="Kind of the entity, as in `kinds` of an entity.", examples=["name"])
    type: str | None = Field(description="Type of the entity; null if it is unknown.", examples=["person"])


class GraphEdgeOut(BaseModel):
    """Edge of a graph."""

    kind: Literal["names", "relation"] = Field(
        description="`names` joins a chunk with an entity that it names. `relation` joins two entities.",
        examples=["names"],
    )
    source: str = Field(
        description="Id of the chunk, or of the entity that is the subject.", examples=[example_values.CHUNK_ID]
    )
    target: str = Field(
        description="Id of the entity, or of the entity that is the object.", examples=[example_values.ENTITY_ID]
    )
    chunk_id: str = Field(description="Id of the chunk that is the evidence.", examples=[example_values.CHUNK_ID])
    predicate: str | None = Field(description="The relation; null for `names`.", examples=[None])
    weight: float | None = Field(
        description="Weight of the edge: 1 plus the logarithm of the number of occurrences. Null for `relation`.",
        examples=[1.693147],
    )


class DocumentGraphOut(BaseModel):
    """Graph of the live version of a document."""

    document: str = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    version: int | None = Field(description="Live version; null before the first version is ready.", examples=[1])
    nodes: list[GraphNodeOut] = Field(description=f"Entities, those of the most chunks first, at most {MAX_NODES:,}.")
    edges: list[GraphEdgeOut] = Field(description=f"Edges in reading order, at most {MAX_EDGES:,}.")
    truncated: bool = Field(description="Whether nodes or edges were left out.", examples=[False])
    warnings: list[WarningOut] = Field(
        description="Warnings, such as `graph_missing` for a search index without a graph.", examples=[[]]
    )


def build_graph_warnings(*, has_graph: bool) -> list[WarningOut]:
    """Return a warning if the search index has no graph."""
    code = WarningCode.GRAPH_MISSING
    return [] if has_graph else to_warnings_out([ServiceWarning(code, code.meaning)])


def to_entity_out(entity: EntitySummary) -> EntityOut:
    """Return an entity in its schema."""
    return EntityOut(
        id=encode_entity_id(entity.key),
        name=entity.name,
        kinds=list(entity.kinds),
        type=entity.type,
        chunks=entity.chunks,
        titles=entity.titles,
    )


def to_entity_detail_out(detail: EntityDetail, chunks: Sequence[EntityChunk], cursor: str | None) -> EntityDetailOut:
    """Return an entity with a page of its chunks in its schema."""
    return EntityDetailOut(
        **to_entity_out(detail.entity).model_dump(),
        aliases=[AliasNameOut(id=encode_entity_id(alias.key), name=alias.name) for alias in detail.aliases],
        chunk_list=[
            EntityChunkOut(
                id=encode_id("chk", chunk.chunk_id),
                document_id=encode_id("doc", chunk.document_id),
                source=chunk.source,
                chunk_index=chunk.ordinal,
                count=chunk.count,
                name=chunk.name,
                text=chunk.text,
            )
            for chunk in chunks
        ],
        next_cursor=cursor,
        degree=detail.degree,
        neighbours=[_to_neighbour_out(neighbour) for neighbour in detail.neighbours],
        truncated=detail.is_truncated,
    )


def _to_neighbour_out(neighbour: EntityNeighbour) -> NeighbourOut:
    return NeighbourOut(
        **to_entity_out(neighbour.entity).model_dump(),
        shared_chunks=neighbour.shared_chunks,
        weight=neighbour.weight,
        relations=[
            NeighbourRelationOut(
                predicate=relation.predicate, direction="out" if relation.is_subject else "in", chunks=relation.chunks
            )
            for relation in neighbour.relations
        ],
    )


def to_graph_nodes_out(nodes: Sequence[SubgraphNode]) -> list[GraphNodeOut]:
    """Return entities of a graph in their schema."""
    return [GraphNodeOut(**asdict(node)) for node in nodes]


def to_graph_edges_out(edges: Sequence[SubgraphEdge]) -> list[GraphEdgeOut]:
    """Return edges of a graph in their schema."""
    return [GraphEdgeOut(**asdict(edge)) for edge in edges]


def to_document_graph_out(graph: DocumentGraph) -> DocumentGraphOut:
    """Return the graph of a document in its schema."""
    return DocumentGraphOut(
        document=encode_id("doc", graph.document_id),
        version=graph.version,
        nodes=to_graph_nodes_out(graph.nodes),
        edges=to_graph_edges_out(graph.edges),
        truncated=graph.is_truncated,
        warnings=build_graph_warnings(has_graph=graph.has_graph),
    )

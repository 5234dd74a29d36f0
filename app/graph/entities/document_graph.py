"""Graph of one document: its entities, the chunks that name them, and relations."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.models.tenant_data import DocumentRow
from app.db.statements import Record
from app.graph.entity_ids import encode_entity_id
from app.graph.repository import KIND_NAMES
from app.graph.subgraph import SubgraphEdge, SubgraphNode
from app.ids import encode_id

MAX_NODES = 1_000
MAX_EDGES = 10_000


@dataclass(frozen=True, slots=True)
class DocumentGraph:
    """Entities and edges of the live version of a document.

    Attributes:
        document_id: The document.
        version: Its live version; None before the first is ready.
        nodes: Entities, those of the most chunks first.
        edges: Edges in reading order.
        is_truncated: Whether nodes or edges were left out.
        has_graph: Whether the search index has a graph.
    """

    document_id: UUID
    version: int | None
    nodes: Sequence[SubgraphNode]
    edges: Sequence[SubgraphEdge]
    is_truncated: bool
    has_graph: bool


def build_document_graph(
    document: DocumentRow, mentions: Sequence[Record], relations: Sequence[Record], *, has_graph: bool
) -> DocumentGraph:
    """Return the graph of a document from the rows of its chunks.

    Args:
        document: The document.
        mentions: Entities of its chunks, at most one more than ``MAX_EDGES``.
        relations: Relations of its chunks, likewise.
        has_graph: Whether the search index has a graph.
    """
    counts = Counter(row["key"] for row in mentions)
    first = {row["key"]: row for row in reversed(mentions)}
    included = {key for key, _ in counts.most_common(MAX_NODES)}
    nodes = [
        SubgraphNode(encode_entity_id(key), first[key]["name"], KIND_NAMES[first[key]["kind"]], first[key]["type"])
        for key, _ in counts.most_common(MAX_NODES)
    ]
    edges = [_to_naming_edge(row) for row in mentions if row["key"] in included]
    # Two names of a chunk may count as the same entity.
    edges = list({(edge.source, edge.target): edge for edge in reversed(edges)}.values())[::-1]
    edges += [_to_relation_edge(row) for row in relations if {row["subject_key"], row["object_key"]} <= included]
    is_truncated = len(counts) > MAX_NODES or max(len(mentions), len(relations), len(edges)) > MAX_EDGES
    return DocumentGraph(document.id, document.live_version, nodes, edges[:MAX_EDGES], is_truncated, has_graph)


def _to_naming_edge(row: Record) -> SubgraphEdge:
    chunk = encode_id("chk", row["chunk_id"])
    weight = round(1 + math.log(row["count"]), 6)
    return SubgraphEdge("names", chunk, encode_entity_id(row["key"]), chunk, weight=weight)


def _to_relation_edge(row: Record) -> SubgraphEdge:
    subject, target = encode_entity_id(row["subject_key"]), encode_entity_id(row["object_key"])
    return SubgraphEdge("relation", subject, target, encode_id("chk", row["chunk_id"]), row["predicate"])

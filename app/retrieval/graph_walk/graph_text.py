"""Text of the graph of a search's results, which takes the place of the last result."""

import asyncio
from collections.abc import Sequence
from functools import cache

from app.graph.serializers import load_serializers
from app.graph.serializers.serializer import (
    MAX_GRAPH_CHARACTERS,
    NamedPassage,
    ResultGraph,
    SharedName,
    StatedRelation,
)
from app.graph.subgraph import Subgraph, merge_subgraphs
from app.ids import encode_id
from app.logging import get_logger
from app.retrieval.search_run import SearchRun
from app.retrieval.types import Hit, SearchRequest
from app.threads import DaemonThreads
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

MAX_SECONDS, TIME_SHARE = 1.0, 0.3
"""Time of a serializer, and its share of the remaining time of the search."""

MAX_THREADS = 4
"""Threads of each serializer: calls that never end block no other serializer, and their number is limited."""


async def add_graph_text(
    request: SearchRequest, search_run: SearchRun, hits: Sequence[Hit], *, top_k: int
) -> tuple[Sequence[Hit], str | None]:
    """Write the graph of the hits as a text, if a strategy of the search has the option for it.

    The text counts as one of ``top_k`` results. If the serializer fails, is late or writes nothing, there is no text.

    Args:
        request: The search request.
        search_run: Deadline and warnings of the search, with the subgraphs of its parts.
        hits: Hits of the search, best first.
        top_k: Number of results that the caller wants, with the text. Of a single result there is no text.

    Returns:
        The hits that are returned with the text, and the text; None without a text.
    """
    if not (request.accepts_graph_text and search_run.serializer_names and search_run.subgraphs) or top_k < 2:
        return hits, None
    others = sorted(set(search_run.serializer_names) - {search_run.serializer_names[0]})
    if others:
        message = f"The serializer {search_run.serializer_names[0]!r} was used, and not {', '.join(map(repr, others))}."
        search_run.add_notice(ServiceWarning(WarningCode.GRAPH_TEXT_OMITTED, message))
    name, listed_hits = search_run.serializer_names[0], hits[: top_k - 1]
    graph = build_result_graph(
        merge_subgraphs(search_run.subgraphs, {_get_chunk_id(hit) for hit in listed_hits}), listed_hits
    )
    try:
        async with asyncio.timeout(min(MAX_SECONDS, search_run.remaining_seconds * TIME_SHARE)):
            serialize = load_serializers()[name].serialize
            text, error = await _get_threads(name).run(serialize, graph)
        if error is not None or text is None:
            raise error or TypeError("The serializer returned None.")
        text = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()[:MAX_GRAPH_CHARACTERS]
    except Exception as exc:  # a plugin may raise anything, or return something else
        logger.warning("search.graph_serializer_failed", serializer=name, error=exc)
        message = f"The serializer {name!r} failed ({type(exc).__name__}), so the results have no text of the graph."
        search_run.add_notice(ServiceWarning(WarningCode.GRAPH_SERIALIZER_FAILED, message))
        return hits, None
    return (listed_hits, text) if text else (hits, None)


@cache
def _get_threads(name: str) -> DaemonThreads:
    return DaemonThreads(f"serializer-{name}", MAX_THREADS)


def build_result_graph(subgraph: Subgraph, hits: Sequence[Hit]) -> ResultGraph:
    """Build the graph that a serializer gets (pure).

    Args:
        subgraph: Names and edges of the hits.
        hits: Hits of the search, best first.

    Returns:
        The graph with one-line names and titles.
    """
    passages = {
        _get_chunk_id(hit): NamedPassage(_get_chunk_id(hit), _to_line(hit.document.title or hit.document.source))
        for hit in hits
    }
    nodes = {node.id: node for node in subgraph.nodes}
    chunks_by_node: dict[str, set[str]] = {}
    relations = []
    for edge in subgraph.edges:
        if edge.kind == "names":
            chunks_by_node.setdefault(edge.target, set()).add(edge.chunk_id)
        elif edge.source in nodes and edge.target in nodes:
            subject, object_ = _to_line(nodes[edge.source].name), _to_line(nodes[edge.target].name)
            relations.append(StatedRelation(subject, _to_line(edge.predicate or ""), object_, passages[edge.chunk_id]))
    names = [
        SharedName(
            _to_line(node.name),
            node.kind,
            node.type,
            [passages[key] for key in passages if key in chunks_by_node[node.id]],
        )
        for node in subgraph.nodes
        if node.id in chunks_by_node
    ]
    names.sort(key=lambda shared: -len(shared.passages))
    return ResultGraph(names, relations, [*passages.values()])


def _get_chunk_id(hit: Hit) -> str:
    return encode_id("chk", hit.chunk.id)


def _to_line(text: str) -> str:
    return " ".join(text.split())

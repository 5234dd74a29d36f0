"""Serializer that writes one sentence for each relation and for each name that joins results."""

from collections.abc import Iterator

from app.graph.serializers.serializer import MAX_GRAPH_CHARACTERS, GraphSerializer, ResultGraph

MAX_TITLES = 5
HEADING = "Connections between the passages:"


def serialize(graph: ResultGraph) -> str:
    """Return the sentences that fit, each in one line.

    Args:
        graph: Graph of the results.

    Returns:
        The text; empty if no name joins two results and there are no relations.
    """
    lines, length = [HEADING], len(HEADING)
    for line in _list_lines(graph):
        length += len(line) + 1
        if length > MAX_GRAPH_CHARACTERS:
            break
        lines.append(line)
    return "\n".join(lines) if len(lines) > 1 else ""


def _list_lines(graph: ResultGraph) -> Iterator[str]:
    for relation in graph.relations:
        yield f"- {relation.subject} {relation.predicate} {relation.object} ({relation.passage.title})."
    for shared in graph.names:
        titles = list(dict.fromkeys(passage.title for passage in shared.passages))
        if len(shared.passages) < 2:
            continue
        label = shared.name if shared.type is None else f"{shared.name} ({shared.type})"
        more = f" and {len(titles) - MAX_TITLES} more" if len(titles) > MAX_TITLES else ""
        yield f"- {label} is named in: {'; '.join(titles[:MAX_TITLES])}{more}."


SERIALIZER = GraphSerializer(
    "text", "A line for each relation, and for each name that several results share.", serialize
)

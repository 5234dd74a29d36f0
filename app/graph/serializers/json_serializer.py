"""Serializer that writes names and relations as one JSON object."""

import json
from typing import Any

from app.graph.serializers.serializer import (
    MAX_GRAPH_CHARACTERS,
    GraphSerializer,
    ResultGraph,
    SharedName,
    StatedRelation,
)


def serialize(graph: ResultGraph) -> str:
    """Return a JSON object with ``names`` and ``relations``, as many as fit.

    Args:
        graph: Graph of the results.

    Returns:
        The text; empty if there are no names.
    """
    content: dict[str, list[dict[str, Any]]] = {"names": [], "relations": []}
    items = [("relations", _to_json_relation(relation)) for relation in graph.relations]
    items += [("names", _to_json_name(shared)) for shared in graph.names]
    length = len(json.dumps(content))
    for field, item in items:
        length += len(json.dumps(item, ensure_ascii=False)) + 2
        if length > MAX_GRAPH_CHARACTERS:
            break
        content[field].append(item)
    return json.dumps(content, ensure_ascii=False) if content["names"] or content["relations"] else ""


def _to_json_relation(relation: StatedRelation) -> dict[str, Any]:
    return {
        "subject": relation.subject,
        "predicate": relation.predicate,
        "object": relation.object,
        "document": relation.passage.title,
    }


def _to_json_name(shared: SharedName) -> dict[str, Any]:
    documents = list(dict.fromkeys(passage.title for passage in shared.passages))
    return {"name": shared.name, "kind": shared.kind, "type": shared.type, "documents": documents}


SERIALIZER = GraphSerializer("json", "An object with `names` and `relations`, each with its documents.", serialize)

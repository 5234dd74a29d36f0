"""The tree, nodes and chunks of one document, read through the API."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class DocumentReader:
    """A document, its path and a client that reads it."""

    client: httpx2.Client
    path: str
    document: dict[str, Any]

    def get(self, suffix: str, **query: Any) -> Any:
        """Return the JSON below the document's path."""
        reply = self.client.get(self.path + suffix, params=query)
        reply.raise_for_status()
        return reply.json()

    def nodes(self, **query: Any) -> list[dict[str, Any]]:
        """Return all nodes of the tree in reading order."""
        return list(iter_subtree(self.get("/tree", **query)["root"]))

    def leaves(self) -> list[dict[str, Any]]:
        """Return the nodes without children in reading order."""
        return [node for node in self.nodes() if not node["children"]]

    def chunks(self, **query: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get("/chunks", limit=200, **query)["items"]
        return items


def iter_subtree(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and the nodes below it in reading order."""
    yield node
    for child in node["children"]:
        yield from iter_subtree(child)

"""Settings of a knowledge base's entity graph, and of the graph that a search index has."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import InvalidInputError

GRAPH_VERSION = 1
"""Version of the extraction without a model. A graph of another version needs a reindex."""


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Extraction of entities from the documents of a knowledge base.

    Attributes:
        enabled: Whether search indexes have a graph.
        metadata_keys: Metadata keys whose values are entities.
        extractors: Names of the plugins' extractors that run after the extraction of the service.
    """

    enabled: bool = True
    metadata_keys: Sequence[str] = ()
    extractors: Sequence[str] = ()

    def to_stored(self) -> dict[str, Any]:
        """Return the JSON form of a knowledge base's row."""
        return {
            "enabled": self.enabled, "metadata_keys": list(self.metadata_keys), "extractors": list(self.extractors)
        }  # fmt: skip

    def check(self, installed_extractors: Collection[str]) -> None:
        """Raise InvalidInputError if an extractor is not installed."""
        for name in self.extractors:
            if name not in installed_extractors:
                available = ", ".join(sorted(installed_extractors)) or "none"
                raise InvalidInputError(
                    f"No extractor is named {name!r}. Installed extractors: {available}.",
                    loc=("body", "graph", "extractors"),
                )

    def to_index_graph(self, extractor_versions: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the graph settings of a new search index; None if it gets no graph.

        Args:
            extractor_versions: Versions of the installed extractors by name.
        """
        if not self.enabled:
            return None
        extractors = [f"{name}@{extractor_versions.get(name, '')}" for name in self.extractors]
        return {"version": GRAPH_VERSION, "metadata_keys": list(self.metadata_keys), "extractors": extractors}


@dataclass(frozen=True, slots=True)
class IndexGraph:
    """Extraction settings that built the graph of a search index."""

    metadata_keys: Sequence[str]
    extractors: Sequence[str]

    @property
    def needs_metadata(self) -> bool:
        """Whether the extraction reads the metadata of chunks: for metadata keys or for plugins."""
        return bool(self.metadata_keys or self.extractors)

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> "IndexGraph | None":
        """Return the settings of a search index's row; None if the index has no graph."""
        if stored is None:
            return None
        names = [extractor.rpartition("@")[0] for extractor in stored["extractors"]]
        return cls(tuple(stored["metadata_keys"]), tuple(names))

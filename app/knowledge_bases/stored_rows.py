"""Stored form of a knowledge base and its live search index."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class StoredKnowledgeBase:
    """Columns of a knowledge base. ``source`` is set only if an HTTP source answers its searches."""

    tenant_id: UUID
    id: UUID
    name: str
    title: str | None
    description: str | None
    language: str
    chunking: dict[str, Any]
    retrieval: dict[str, Any]
    metadata_filter: dict[str, Any]
    pending_metadata_filter: dict[str, Any] | None
    routing: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    source: dict[str, Any] | None
    filter_revision: int
    graph: dict[str, Any]
    enrichment: dict[str, Any] | None = None

    @property
    def enforced_metadata(self) -> dict[str, Any]:
        """Metadata that every new document gets. It overrides the caller's values."""
        return self.metadata_filter if self.pending_metadata_filter is None else self.pending_metadata_filter

    @property
    def metadata_revision(self) -> int:
        """Number of the enforced metadata's revision; pending enforced metadata is one revision ahead."""
        return self.filter_revision + (self.pending_metadata_filter is not None)

    @property
    def enforced_filter(self) -> dict[str, Any] | None:
        """Filter that every read applies, or None.

        During a metadata backfill, documents with the former or with the pending enforced metadata match.
        """
        filters = (
            [self.metadata_filter]
            if self.pending_metadata_filter is None
            else [self.metadata_filter, self.pending_metadata_filter]
        )
        if not all(filters):
            return None
        return filters[0] if len(filters) == 1 else {"or": filters}


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """Search index that searches read and ingestion writes; ``identity`` names the model and settings that made it.

    ``languages`` are the languages of its documents, if each document has its own language. ``chooses_model`` says
    whether the service may choose another model by the language of the first documents. ``graph`` has the settings that
    built the graph; None if there is no graph. ``recall`` is the measured recall of the vector index; None without one.
    """

    id: UUID
    identity: dict[str, Any]
    dim: int
    avgdl: float
    vector_index: str
    skip_reason: str | None
    index_bytes: int
    languages: list[str]
    chooses_model: bool = False
    graph: dict[str, Any] | None = None
    recall: float | None = None

"""A knowledge base and its live search index as they are stored."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class StoredKnowledgeBase:
    """A knowledge base as it is stored; ``source`` is there where it is of kind http."""

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

    @property
    def enforced_metadata(self) -> dict[str, Any]:
        """The metadata that everything gets that goes in now, over what its caller says."""
        return self.metadata_filter if self.pending_metadata_filter is None else self.pending_metadata_filter

    @property
    def metadata_revision(self) -> int:
        """Which stamp that is: a pending filter has the number after metadata_filter's until it takes its place."""
        return self.filter_revision + (self.pending_metadata_filter is not None)

    @property
    def enforced_filter(self) -> dict[str, Any] | None:
        """The filter that every read has to fulfil; while a new stamp goes round, the old one holds as well."""
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
    """The search index that searches read and ingestion writes to; ``identity`` says what made it.

    ``languages`` are those of its documents where each has its own.
    """

    id: UUID
    identity: dict[str, Any]
    dim: int
    avgdl: float
    vector_index: str
    skip_reason: str | None
    index_bytes: int
    languages: list[str]

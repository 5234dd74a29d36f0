"""The nouns of a knowledge base: its settings and the identity of its search index."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from app.errors import Conflict, NotFound
from app.inference.embedding import EmbeddingIdentity

DEFAULT_NAME = "default"


class KnowledgeBaseNotFound(NotFound):
    """There is no such knowledge base."""

    code = "knowledge_base_not_found"


class KnowledgeBaseExists(Conflict):
    """A knowledge base of that name is there already."""

    code = "knowledge_base_exists"


class StampUnderWay(Conflict):
    """The last change of metadata_filter is still on its way to the documents; try again when it is done."""

    code = "metadata_filter_pending"


class IndexMismatch(Conflict):
    """The knowledge base was embedded by another model than the one that is configured now."""

    code = "index_mismatch"


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut; sizes in the embedding model's own tokens, ``options`` the chunker's own."""

    strategy: str = "headered"
    max_tokens: int = 200
    overlap_tokens: int = 50
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How a search that does not say otherwise is done."""

    strategy: str = "hybrid"
    top_k: int = 5
    strategy_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewKnowledgeBase:
    """What a caller may say about a knowledge base."""

    name: str
    title: str | None = None
    description: str | None = None
    language: str = "english"
    model: str | None = None
    dimensions: int | None = None
    chunking: Chunking = Chunking()
    retrieval: Retrieval = Retrieval()
    metadata_filter: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StoredKnowledgeBase:
    """A knowledge base as it is stored."""

    tenant_id: UUID
    id: UUID
    name: str
    title: str | None
    description: str | None
    language: str
    chunking: dict[str, Any]
    retrieval: dict[str, Any]
    metadata_filter: dict[str, Any]
    pending_filter: dict[str, Any] | None
    created_at: datetime
    updated_at: datetime

    @property
    def stamp(self) -> dict[str, Any]:
        """The metadata that everything gets that goes in now, over what its caller says."""
        return self.metadata_filter if self.pending_filter is None else self.pending_filter

    @property
    def guard(self) -> dict[str, Any] | None:
        """The filter that every read has to fulfil; while a new stamp goes round, the old one holds as well."""
        stamps = [self.metadata_filter] if self.pending_filter is None else [self.metadata_filter, self.pending_filter]
        if not all(stamps):
            return None
        return stamps[0] if len(stamps) == 1 else {"or": stamps}


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The search index that searches read and ingestion writes to; ``identity`` says what made it."""

    id: UUID
    identity: dict[str, Any]
    dim: int
    avgdl: float
    vector_index: str
    held_back: str | None
    index_bytes: int


@dataclass(frozen=True, slots=True)
class KnowledgeBaseView:
    """A knowledge base with its live search index."""

    row: StoredKnowledgeBase
    index: LiveIndex
    document_count: int = 0
    chunk_count: int = 0

    @property
    def chunking(self) -> Chunking:
        """Typed form of the stored settings."""
        return Chunking(**self.row.chunking)

    @property
    def retrieval(self) -> Retrieval:
        """Typed form of the stored settings."""
        return Retrieval(**self.row.retrieval)

    def mismatch(self, identity: EmbeddingIdentity) -> str | None:
        """What differs between the index and the configured model, as a sentence; None when they fit."""
        stored = self.index.identity
        for name in (each.name for each in fields(identity)):
            value = getattr(identity, name)
            if stored.get(name) != value:
                return (
                    f"Knowledge base {self.row.name!r} was embedded with {name} {stored.get(name)!r}, "
                    f"but {value!r} is configured; reindex it or restore the setting."
                )
        return None

    def require_match(self, identity: EmbeddingIdentity) -> None:
        """Raises IndexMismatch when vectors of the configured model must not meet those of the index."""
        reason = self.mismatch(identity)
        if reason is not None:
            raise IndexMismatch(reason)

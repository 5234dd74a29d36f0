"""The nouns of retrieval: what is asked, what is found, and the room's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from app.documents.scopes import Scope
from app.errors import Unavailable

Key = tuple[UUID, UUID]
"""What names a chunk to the lanes: its search index and its id."""


class SearchUnavailable(Unavailable):
    """No lane can answer now; try again."""

    code = "search_unavailable"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; ``role`` is customer, user, agent, assistant, tool or system."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search, by ``queries`` or ``messages``; without ``knowledge_bases`` in all that the key may read."""

    queries: Sequence[str] = ()
    messages: Sequence[Message] = ()
    knowledge_bases: Sequence[str] | None = None
    top_k: int | None = None
    score_threshold: float | None = None
    strategy: str | None = None
    strategy_options: Mapping[str, Any] = field(default_factory=dict)
    filter: Mapping[str, Any] | None = None
    scope: Scope = field(default_factory=Scope)
    timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that was ranked: ``score`` orders, ``similarity`` is the cosine with the query (None: not known)."""

    key: Key
    score: float
    similarity: float | None


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """What a search tells of a chunk; ``ordinal`` is the API's chunk_index, ``node_path`` leads from the root."""

    id: UUID
    version: int
    ordinal: int
    content: str
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[int]
    media_ordinal: int | None
    media_type: str | None
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """What a search tells of the chunk's document; ``attributes`` is the caller's metadata."""

    id: UUID
    source: str
    title: str | None
    source_uri: str | None
    source_created_at: datetime | None
    media_type: str
    attributes: dict[str, Any]
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A found chunk with its document."""

    chunk: FoundChunk
    document: FoundDocument
    knowledge_base: str
    score: float
    similarity: float | None

    @property
    def citation(self) -> str:
        """For people: the source and where in it."""
        chunk, source = self.chunk, self.document.source
        if chunk.slide is not None:
            return f"{source}, slide {chunk.slide}"
        if chunk.page is None:
            return source
        if chunk.page_end in (None, chunk.page):
            return f"{source}, p. {chunk.page}"
        return f"{source}, pp. {chunk.page}\u2013{chunk.page_end}"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits best first, and how they came about."""

    hits: Sequence[Hit]
    queries: Sequence[str]
    strategy: str
    warnings: Sequence[str]
    timings_ms: Mapping[str, float]

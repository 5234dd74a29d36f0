"""Types of golden sets, and their errors."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from app.errors import ConflictError, NotFoundError

MAX_ITEMS = 5000
"""Maximum number of items of a golden set."""
MAX_RELEVANT = 100
"""Maximum number of relevant documents and chunks of an item."""

Position = tuple[datetime, UUID]


class GoldenSetNotFound(NotFoundError):
    """There is no such golden set."""

    code = "golden_set_not_found"


class GoldenItemNotFound(NotFoundError):
    """The golden set has no such item."""

    code = "golden_item_not_found"


class TooManyGoldenItems(ConflictError):
    """A golden set has at most 5,000 items. Delete items, or make another golden set."""

    code = "too_many_golden_items"


class TooManyRelevant(ConflictError):
    """An item has at most 100 relevant documents and chunks."""

    code = "too_many_relevant"


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A golden set, with the number of its items."""

    id: UUID
    name: str
    description: str | None
    item_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Relevance:
    """A relevant document, or a relevant chunk of a document."""

    document_id: UUID
    chunk_id: UUID | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return a relevance from its JSON in the database."""
        chunk = stored.get("chunk")
        return cls(UUID(stored["document"]), None if chunk is None else UUID(chunk))

    def to_json(self) -> dict[str, str]:
        """Return the relevance as JSON for the database."""
        chunk = {} if self.chunk_id is None else {"chunk": str(self.chunk_id)}
        return {"document": str(self.document_id), **chunk}


@dataclass(frozen=True, slots=True)
class GoldenItemDraft:
    """A query or a conversation to add to a golden set, with what is relevant."""

    query: str | None
    messages: Sequence[Mapping[str, str]] | None
    relevant: Sequence[Relevance]

    @property
    def digest(self) -> bytes:
        """Hash of the query or the conversation. A golden set has one item of each hash."""
        return hashlib.sha256(json.dumps([self.query, self.messages], ensure_ascii=False).encode()).digest()


@dataclass(frozen=True, slots=True)
class GoldenItem:
    """A query or a conversation of a golden set, with what is relevant."""

    id: UUID
    query: str | None
    messages: Sequence[Mapping[str, str]] | None
    relevant: Sequence[Relevance]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LocatedRelevance:
    """A relevance with the knowledge base of its document; None if the document or the chunk is missing."""

    relevance: Relevance
    kb_id: UUID | None

    @property
    def is_missing(self) -> bool:
        """Whether the document was deleted, or no live version has the chunk."""
        return self.kb_id is None


@dataclass(frozen=True, slots=True)
class LocatedItem:
    """An item of a golden set, with the knowledge bases of what is relevant."""

    item: GoldenItem
    relevant: Sequence[LocatedRelevance]

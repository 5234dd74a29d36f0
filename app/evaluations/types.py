"""Types of golden sets and evaluations, and their errors."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from app.errors import ConflictError, NotFoundError, TooManyRequestsError
from app.warnings import ServiceWarning

MAX_ITEMS = 5000
"""Maximum number of items of a golden set."""
MAX_RELEVANT = 100
"""Maximum number of relevant documents and chunks of an item."""

MAX_ACTIVE_EVALUATIONS = 2
"""Maximum number of evaluations of a tenant that are queued or running."""
RUN_EVALUATION_JOB = "run_evaluation"

Position = tuple[datetime, UUID]


class GoldenSetNotFound(NotFoundError):
    """There is no such golden set."""

    code = "golden_set_not_found"


class GoldenItemNotFound(NotFoundError):
    """The golden set has no such item."""

    code = "golden_item_not_found"


class RelevanceNotFound(NotFoundError):
    """The item of the golden set has no such relevant document or chunk."""

    code = "golden_relevance_not_found"


class LastRelevance(ConflictError):
    """The last relevant document of an item cannot be removed. Delete the item, or add another document first."""

    code = "last_golden_relevance"


class TooManyGoldenItems(ConflictError):
    """A golden set has at most 5,000 items. Delete items, or make another golden set."""

    code = "too_many_golden_items"


class TooManyRelevant(ConflictError):
    """An item has at most 100 relevant documents and chunks."""

    code = "too_many_relevant"


class GoldenSetEmpty(ConflictError):
    """The golden set has no items. Add items first."""

    code = "golden_set_empty"


class EvaluationNotFound(NotFoundError):
    """There is no such evaluation."""

    code = "evaluation_not_found"


class TooManyEvaluations(TooManyRequestsError):
    """A tenant runs at most two evaluations at the same time. Wait until one ends, or delete it."""

    code = "too_many_evaluations"


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


class EvaluationState(StrEnum):
    """State of an evaluation."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        """Whether the evaluation waits or runs."""
        return self in (EvaluationState.QUEUED, EvaluationState.RUNNING)


@dataclass(frozen=True, slots=True)
class EvaluationSetting:
    """Search settings of an evaluation: the body of the caller, and the settings as the service understands them."""

    body: Mapping[str, Any]
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredEvaluation:
    """A run of a golden set. ``done`` counts the searches of ``total``; ``figures`` is None until the end."""

    id: UUID
    set_id: UUID
    settings: Sequence[EvaluationSetting]
    state: EvaluationState
    done: int
    total: int
    figures: Sequence[Mapping[str, Any]] | None
    warnings: Sequence[ServiceWarning]
    error: Mapping[str, Any] | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class RankedRelevance:
    """A relevant document or chunk, with its rank from 1; None if the search did not find it."""

    relevance: Relevance
    rank: int | None


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """Result of one query with one setting.

    Attributes:
        scores: Values by the label of the measure; empty if nothing relevant exists any more.
        relevant: What is relevant, with ranks.
        missing_count: Number of relevant documents and chunks that are missing.
        warnings: Codes of the warnings of the search.
        error: Code of the error of the search; None if it answered.
    """

    scores: Mapping[str, float]
    relevant: Sequence[RankedRelevance] = ()
    missing_count: int = 0
    warnings: Sequence[str] = ()
    error: str | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return an outcome from its JSON in the database."""
        ranked_relevant = [RankedRelevance(Relevance.from_json(entry), entry["rank"]) for entry in stored["relevant"]]
        return cls(stored["scores"], ranked_relevant, stored["missing"], stored["warnings"], stored["error"])

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON for the database, with ids only."""
        return {
            "scores": dict(self.scores),
            "relevant": [{**entry.relevance.to_json(), "rank": entry.rank} for entry in self.relevant],
            "missing": self.missing_count,
            "warnings": list(self.warnings),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """Results of one item with each setting. ``item`` is None if the item was deleted."""

    item_id: UUID
    item: GoldenItem | None
    outcomes: Sequence[QueryOutcome]


class OutcomeChange(StrEnum):
    """Change of a query from the first setting to the second."""

    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"

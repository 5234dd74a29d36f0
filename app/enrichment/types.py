"""Types of the enrichment of documents: sections, plans, replies, states and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol
from uuid import UUID

from app.db.session import TenantDatabase
from app.documents.context_lines import ContextLine
from app.errors import ConflictError, JobPostponed

ENRICH_JOB = "enrich_document"
METHOD = "model"
"""Method of summaries, keywords and relations that a chat model wrote."""

EnrichmentWaitReason = Literal["chat_model", "embedding_endpoint", "rate_limit"]
"""Reason of a postponed enrichment: an endpoint that does not answer, or used up tokens of the day."""


class EnrichmentDisabled(ConflictError):
    """The knowledge base does not enrich documents. Set enrichment.enabled first."""

    code = "enrichment_disabled"


class EnrichmentWaiting(JobPostponed):
    """A model does not answer, or its tokens of the day are used up; the enrichment of the document waits for it."""

    code = "enrichment_waiting"


class EnrichmentCapped(JobPostponed):
    """The day's tokens for enrichment are used up; the enrichment of the document continues on the next day."""

    code = "enrichment_capped"


class EnrichmentState(StrEnum):
    """Stored state of the enrichment of a document."""

    QUEUED = "queued"
    RUNNING = "running"
    READY = "ready"
    CAPPED = "capped"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def public_name(self) -> str:
        """Name of the state in the API."""
        return {"queued": "pending", "ready": "done"}.get(self.value, self.value)


class Reservation(StrEnum):
    """Result of the reservation of tokens before a call."""

    GRANTED = "granted"
    DOCUMENT_CAPPED = "document_capped"
    DAY_CAPPED = "day_capped"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True)
class SectionNode:
    """A section of a document, or the document itself, in reading order.

    Attributes:
        id: Id of the node.
        parent_id: Id of the section above; None for the document.
        title: Heading; None without one.
        start: Offset of the first character in the text of the document.
        end: Offset behind the last character.
    """

    id: UUID
    parent_id: UUID | None
    title: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call of the chat model about one section, or about a part of a long section.

    Attributes:
        node_id: Node of the section; None for a part of a section.
        titles: Headings of the section, outermost first.
        ranges: Ranges of the text that the call reads.
        children: Positions of the calls whose summaries this call reads.
    """

    node_id: UUID | None
    titles: tuple[str, ...]
    ranges: tuple[tuple[int, int], ...]
    children: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """An entity that the chat model names and the text contains."""

    name: str
    type: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """A relation that the chat model names, with its evidence in the text."""

    subject: str
    predicate: str
    object: str
    evidence: str


@dataclass(frozen=True, slots=True)
class SectionReply:
    """Checked reply of the chat model about one section. ``dropped`` counts items without evidence in the text.

    ``lines`` are context lines about ranges of the text that the call read. ``is_skipped`` says that the model gave no
    valid reply.
    """

    summary: str = ""
    keywords: tuple[str, ...] = ()
    entities: tuple[FoundEntity, ...] = ()
    relations: tuple[FoundRelation, ...] = ()
    dropped: int = 0
    is_skipped: bool = False
    lines: tuple[ContextLine, ...] = ()


@dataclass(frozen=True, slots=True)
class EnrichedSection:
    """A planned call with its reply, and the hash and tokens of the reply."""

    call: PlannedCall
    reply: SectionReply
    content_hash: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class EnrichmentTarget:
    """Live version of a document that is to be enriched.

    Attributes:
        kb_id: The knowledge base.
        document_id: The document.
        version: Its live version.
        index_id: The live search index.
        has_graph: Whether the search index has a graph.
        title: Title of the document.
        text: Text of the document.
        sections: Sections in reading order, the document first.
        chunks: Ranges of the chunks that can get a context line.
        has_context_lines: Whether a chunk has a context line.
    """

    kb_id: UUID
    document_id: UUID
    version: int
    index_id: UUID
    has_graph: bool
    title: str | None
    text: str
    sections: Sequence[SectionNode]
    chunks: Sequence[tuple[int, int]] = ()
    has_context_lines: bool = False


@dataclass(frozen=True, slots=True)
class DocumentEnrichmentState:
    """State of the enrichment of one document, for callers."""

    state: str
    sections: int
    sections_done: int
    calls: int
    tokens: int
    waiting_for: EnrichmentWaitReason | None
    warnings: Sequence[Mapping[str, Any]]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class EnrichmentStatus:
    """State of the enrichment of a knowledge base: documents by state, and the tokens of the day."""

    enabled: bool
    model: str | None
    documents: Mapping[str, int]
    waiting_for: EnrichmentWaitReason | None
    calls_today: int
    tokens_today: int
    max_tokens_per_day: int


@dataclass(frozen=True, slots=True)
class EnrichmentEstimate:
    """Estimated cost of the pending documents.

    Attributes:
        documents: Number of pending documents.
        sampled_documents: Number of documents that were read for the estimate.
        calls: Number of calls of the chat model.
        input_tokens: Tokens of the prompts.
        output_tokens: Tokens of the replies.
        is_calibrated: Whether earlier calls in the knowledge base corrected the numbers.
    """

    documents: int
    sampled_documents: int
    calls: int
    input_tokens: int
    output_tokens: int
    is_calibrated: bool


class ContextLineWriter(Protocol):
    """Writer that embeds and indexes the chunks of a document with its context lines."""

    async def __call__(
        self,
        db: TenantDatabase,
        kb_id: UUID,
        document_id: UUID,
        *,
        version: int,
        index_id: UUID,
        lines: Sequence[ContextLine],
    ) -> bool:
        """Return False if the document has another version or another live search index."""
        ...

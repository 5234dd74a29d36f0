"""What a knowledge base tells of the index that is built beside its live one, or was before it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.v1.schemas import Time
from app.bootstrap import Resources
from app.knowledge_bases.types import KnowledgeBaseView, ReindexProgress


class ChunkingOut(BaseModel):
    """How documents are cut; ``options`` only where the chunker has some."""

    strategy: str
    max_tokens: int
    overlap_tokens: int
    options: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda options: not options)


class EmbeddingOut(BaseModel):
    """The model of the live index."""

    model: str
    dimensions: int


class ReindexLastErrorOut(BaseModel):
    """Why building waits: it is tried again."""

    code: str
    message: str


class ReindexErrorOut(ReindexLastErrorOut):
    """Why building has stopped, and at which document if it was one."""

    document: str | None


class ReindexOut(BaseModel):
    """The next index, which is being built beside the live one; ``done`` and ``total`` count documents.

    One that ``failed`` goes on when it is asked for again, with the same settings.
    """

    state: Literal["building", "failed"]
    done: int
    total: int
    embedding: EmbeddingOut
    chunking: ChunkingOut
    language: str
    error: ReindexErrorOut | None
    last_error: ReindexLastErrorOut | None
    started_at: Time


def to_reindex_out(reindexing: ReindexProgress) -> dict[str, Any]:
    """How far the one is that is being built."""
    return {
        "state": reindexing.state,
        "done": reindexing.done,
        "total": reindexing.total,
        "embedding": {"model": reindexing.identity["model"], "dimensions": reindexing.dim},
        "chunking": reindexing.chunking,
        "language": reindexing.language,
        "error": reindexing.error,
        "last_error": reindexing.last_error,
        "started_at": reindexing.started_at,
    }


def get_rollback_deadline(view: KnowledgeBaseView, resources: Resources) -> datetime | None:
    """When the one before is forgotten."""
    if view.retired_at is None:
        return None
    deadline = view.retired_at + timedelta(seconds=resources.settings.worker.reindex_rollback_seconds)
    return deadline if deadline > datetime.now(UTC) else None

"""Schemas of the live, the next and the former search index of a knowledge base."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.api.v1.schemas import Time
from app.bootstrap import Resources
from app.knowledge_bases.types import KnowledgeBaseView, ReindexProgress


class ChunkingOut(BaseModel):
    """Chunking: how documents are cut."""

    strategy: str = Field(description="Name of the chunker.", examples=["headered"])
    max_tokens: int = Field(description="Maximum size of a chunk in tokens of the embedding model.", examples=[200])
    overlap_tokens: int = Field(description="Overlap of neighbour chunks in tokens.", examples=[50])
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the chunker. Only present if it has some.",
        examples=[{}],
        exclude_if=lambda options: not options,
    )


class EmbeddingOut(BaseModel):
    """Embedding model of a search index."""

    model: str = Field(description="Name of the model.", examples=["bge-small-en-v1.5"])
    dimensions: int = Field(description="Number of dimensions of the vectors.", examples=[384])


class ReindexLastErrorOut(BaseModel):
    """Error of the last attempt of a reindex, which is tried again."""

    code: str = Field(description="Stable error code.", examples=["embedding_unavailable"])
    message: str = Field(description="What is wrong, for people.", examples=["The embedding model does not answer."])


class ReindexErrorOut(ReindexLastErrorOut):
    """Error that stopped a reindex."""

    document: str | None = Field(
        description="Id of the document that the reindex stopped at; null if no single document is the reason.",
        examples=[example_values.DOCUMENT_ID],
    )


class ReindexOut(BaseModel):
    """Reindex of a knowledge base. A failed reindex continues when it is requested again with the same settings."""

    state: Literal["building", "failed"] = Field(description="`building`, or `failed`.", examples=["building"])
    done: int = Field(description="Number of documents that are done.", examples=[5])
    total: int = Field(description="Number of documents to index.", examples=[12])
    embedding: EmbeddingOut = Field(description="Embedding model of the next search index.")
    chunking: ChunkingOut = Field(description="Chunking of the next search index.")
    language: str = Field(description="Language of the lexical analysis.", examples=["english"])
    error: ReindexErrorOut | None = Field(
        description="Error that stopped the reindex; null while it runs.", examples=[None]
    )
    last_error: ReindexLastErrorOut | None = Field(
        description="Error of the last attempt, which is tried again; null without one.", examples=[None]
    )
    started_at: Time = Field(description="Start of the reindex, in UTC.", examples=[example_values.CREATED_AT])


def to_reindex_out(reindexing: ReindexProgress) -> dict[str, Any]:
    """Return the fields of a reindex for the response."""
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
    """Return the time until which a rollback is possible; None if no rollback is possible.

    Args:
        view: Knowledge base with the time at which its former search index was replaced.
        resources: Resources of the process, for the retention time.
    """
    if view.retired_at is None:
        return None
    deadline = view.retired_at + timedelta(seconds=resources.settings.worker.reindex_rollback_seconds)
    return deadline if deadline > datetime.now(UTC) else None

"""Tables of the enrichment by a chat model. Row-level security is forced."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, LargeBinary, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin

_NO_ITEMS, _NONE = text("'[]'"), text("0")


class NodeEnrichment(CreatedAtMixin, TenantOwnedMixin, Base):
    """Summary, keywords and entities of a section that a chat model wrote."""

    __tablename__ = "node_enrichment"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "document_id", "node_id"],
            ["node.tenant_id", "node.document_id", "node.id"],
            name="node_enrichment_tenant_id_document_id_node_id_fkey",
            ondelete="CASCADE",
        ),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    content_hash: Mapped[bytes] = mapped_column(LargeBinary)
    summary: Mapped[str]
    keywords: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    entities: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    method: Mapped[str]
    model: Mapped[str]
    prompt_version: Mapped[int]
    tokens: Mapped[int]


class EnrichmentResult(CreatedAtMixin, TenantOwnedMixin, Base):
    """A reply of the chat model that was paid for, found by the hash of model, prompt and text."""

    __tablename__ = "enrichment_result"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    content_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    reply: Mapped[dict[str, Any]] = mapped_column(JSONB)
    tokens: Mapped[int]
    estimated_tokens: Mapped[int]


class DocumentEnrichment(TenantOwnedMixin, Base):
    """State of the enrichment of a document. ``version`` and ``index_id`` name the chunks that were enriched."""

    __tablename__ = "document_enrichment"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id", "document_id"],
            ["document.tenant_id", "document.kb_id", "document.id"],
            ondelete="CASCADE",
        ),
        CheckConstraint("state in ('queued', 'running', 'ready', 'capped', 'stopped', 'failed')", name="state"),
        Index("document_enrichment_kb_id_idx", "tenant_id", "kb_id", "state"),
    )

    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    state: Mapped[str]
    version: Mapped[int | None]
    index_id: Mapped[UUID | None]
    settings_hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    sections: Mapped[int] = mapped_column(server_default=_NONE)
    sections_done: Mapped[int] = mapped_column(server_default=_NONE)
    calls: Mapped[int] = mapped_column(server_default=_NONE)
    tokens: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class EnrichmentUsage(TenantOwnedMixin, Base):
    """Calls and tokens of a day (UTC), of a knowledge base or, with the tenant's id as ``owner_id``, of the tenant."""

    __tablename__ = "enrichment_usage"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    owner_id: Mapped[UUID] = mapped_column(primary_key=True)
    calls: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    tokens: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)

"""State of ingestion in one tenant: checkpoints, idempotency keys, receipts of deletions."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    SmallInteger,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin


class EmbeddingCheckpoint(CreatedAtMixin, TenantOwnedMixin, Base):
    """A vector that was paid for, by the hash of its text, until its document's version is whole."""

    __tablename__ = "embedding_checkpoint"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
        Index("embedding_checkpoint_document_idx", "tenant_id", "document_id"),
    )

    identity: Mapped[UUID] = mapped_column(primary_key=True)
    content_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    document_id: Mapped[UUID] = mapped_column(primary_key=True)
    embedding: Mapped[Any] = mapped_column(HALFVEC())


class EmbeddingUsage(TenantOwnedMixin, Base):
    """The cost ledger: what a model was asked to embed on a day (UTC)."""

    __tablename__ = "embedding_usage"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    inputs: Mapped[int] = mapped_column(BigInteger)
    tokens: Mapped[int] = mapped_column(BigInteger)


class IdempotencyKey(CreatedAtMixin, TenantOwnedMixin, Base):
    """The answer that a write got, for its retries; without ``status`` the first request is still under way."""

    __tablename__ = "idempotency_key"
    __table_args__ = (Index("idempotency_key_created_idx", "tenant_id", "created_at"),)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    api_key_id: Mapped[UUID] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    status: Mapped[int | None] = mapped_column(SmallInteger)
    headers: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    locked_until: Mapped[datetime]


class IdempotencySubject(TenantOwnedMixin, Base):
    """The subject of a stored response: the id of a document, a knowledge base or a tenant; deleted with it."""

    __tablename__ = "idempotency_subject"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "api_key_id", "route", "key"],
            [f"idempotency_key.{name}" for name in ("tenant_id", "api_key_id", "route", "key")],
            ondelete="CASCADE",
        ),
        Index("idempotency_subject_answer_idx", "tenant_id", "api_key_id", "route", "key"),
    )

    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    api_key_id: Mapped[UUID] = mapped_column(primary_key=True)
    route: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)


class DeletionRow(TenantOwnedMixin, Base):
    """A deletion and how far it is; it outlives what was deleted, the tenant too, and says nothing of its content.

    That of a tenant is the system tenant's. ``remaining`` is what was left when all was removed, by table.
    ``retained_files`` counts documents that were made of a file that is kept for itself, and was not deleted with them.
    ``sql_views`` are those whose database roles could not be dropped with the rest.
    ``user_key`` is the scope key of the user whose restricted key asked for the deletion; None for every other key.
    """

    __tablename__ = "deletion"
    __table_args__ = (
        CheckConstraint("kind in ('document', 'documents', 'knowledge_base', 'tenant')", name="kind"),
        Index("deletion_requested_at_idx", "requested_at"),
        Index("deletion_unfinished_idx", "requested_at", postgresql_where=text("finished_at is null")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID | None]
    kind: Mapped[str] = mapped_column(server_default=text("'documents'"))
    object_id: Mapped[UUID | None]
    documents: Mapped[int]
    chunks: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    requested_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    remaining: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    retained_files: Mapped[int] = mapped_column(server_default=text("0"))
    user_key: Mapped[UUID | None]
    sql_views: Mapped[list[UUID]] = mapped_column(ARRAY(PG_UUID(as_uuid=True)), server_default=text("'{}'"))

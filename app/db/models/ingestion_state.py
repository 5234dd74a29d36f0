"""Tables of embedding checkpoints, usage of embedding models, idempotency keys and deletion receipts."""

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
    """A computed vector, found by the hash of its text. The vector is stored until the document's version is complete.

    A retry of the ingestion does not compute, or pay for, the same vector again.
    """

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
    """Number of inputs and tokens that a tenant sent to an embedding model on one day (UTC)."""

    __tablename__ = "embedding_usage"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    inputs: Mapped[int] = mapped_column(BigInteger)
    tokens: Mapped[int] = mapped_column(BigInteger)


class IdempotencyKey(CreatedAtMixin, TenantOwnedMixin, Base):
    """The response to a write request, kept for retries. While the first request runs, ``status`` is null."""

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
    """The subject of a stored response: the id of a document, a knowledge base or a tenant.

    The response is deleted with its subject.
    """

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
    """Receipt of a deletion. It remains when its object, or the tenant, is deleted, and holds no content.

    The receipt of a tenant's deletion belongs to the system tenant. ``remaining`` counts, by table, the rows that
    remained after the removal. ``retained_files`` counts deleted documents whose stored file remains. ``sql_views`` are
    the SQL views whose database roles could not be dropped. ``user_key`` is the scope key of the user whose restricted
    key requested the deletion; it is None for other keys.
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

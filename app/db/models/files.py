"""Tables of the OpenAI-compatible API of files and vector stores. Row-level security is forced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, LargeBinary, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin

# Inside StoredFile, the name `bytes` is a column.
Digest = bytes


class StoredFile(CreatedAtMixin, TenantOwnedMixin, Base):
    """A file that was uploaded without a knowledge base. ``key`` is the key of its object in the object store.

    ``key_lineage_id`` is the lineage of the API key that uploaded it. ``quota_key_id`` is the API key whose quota
    counts the file.
    """

    __tablename__ = "stored_file"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    key_lineage_id: Mapped[UUID | None]
    quota_key_id: Mapped[UUID | None]
    filename: Mapped[str]
    media_type: Mapped[str | None]
    bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[Digest] = mapped_column(LargeBinary)
    key: Mapped[str]
    purpose: Mapped[str]
    expires_at: Mapped[datetime | None]


class VectorStoreLabels(TenantOwnedMixin, Base):
    """Labels of a knowledge base, set by a caller of the OpenAI-compatible API."""

    __tablename__ = "vector_store_labels"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
    )

    kb_id: Mapped[UUID] = mapped_column(primary_key=True)
    labels: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=text("'{}'"))


class FileBatch(CreatedAtMixin, TenantOwnedMixin, Base):
    """Stored files that are attached together. The job ``job_id`` attaches them; when it is done, the column is null.

    ``cancelled`` counts documents that were removed before they were ready. ``key_lineage_id`` is the lineage of the
    API key that created the batch.
    """

    __tablename__ = "file_batch"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
        Index("file_batch_kb_idx", "tenant_id", "kb_id"),
        Index("file_batch_job_idx", "tenant_id", "kb_id", postgresql_where=text("job_id is not null")),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    key_lineage_id: Mapped[UUID | None]
    cancelled: Mapped[int] = mapped_column(server_default=text("0"))
    cancelled_at: Mapped[datetime | None]
    job_id: Mapped[UUID | None]


class BatchFile(TenantOwnedMixin, Base):
    """A file of a batch, with its document or with the error that prevented the document. A file with neither waits for
    the job.

    ``attributes`` are the attributes that the document gets.
    """

    __tablename__ = "file_batch_file"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "batch_id"], ["file_batch.tenant_id", "file_batch.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
        Index("file_batch_file_document_idx", "tenant_id", "document_id"),
    )

    batch_id: Mapped[UUID] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    file_id: Mapped[UUID]
    kb_id: Mapped[UUID]
    document_id: Mapped[UUID | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    attributes: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))

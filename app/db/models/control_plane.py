"""Tables of the control plane: tenants, API keys, owners of chats, jobs and workers."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin


class TenantRow(CreatedAtMixin, Base):
    """A tenant. ``deleted_at`` disables its API keys while its rows and objects are being removed.

    ``sql_views`` is whether the tenant's admins may publish knowledge bases as SQL views.
    """

    __tablename__ = "tenant"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    deleted_at: Mapped[datetime | None]
    quotas: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    sql_views: Mapped[bool] = mapped_column(server_default=text("false"))


class ApiKeyRow(CreatedAtMixin, TenantOwnedMixin, Base):
    """An API key. Only the SHA-256 of the key is stored. ``hint`` is its beginning, for display.

    ``replaced_by`` is the key that a rotation created to replace it. ``key_lineage_id`` is the first key of such a
    sequence: usage of all its keys is counted under that key. It is None for a key that was never rotated.
    """

    __tablename__ = "api_key"
    __table_args__ = (
        CheckConstraint("role in ('admin', 'writer', 'reader')", name="role"),
        Index(None, "key_hash"),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]
    key_hash: Mapped[bytes] = mapped_column(LargeBinary)
    hint: Mapped[str]
    knowledge_base_ids: Mapped[list[UUID] | None] = mapped_column(ARRAY(PG_UUID(as_uuid=True)))
    user_id: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    replaced_by: Mapped[UUID | None]
    quotas: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    key_lineage_id: Mapped[UUID | None]


class ApiKeyUse(TenantOwnedMixin, Base):
    """The last use of an API key, rounded to the minute.

    The time has a separate table, because every change of an API key's row is sent to all processes.
    """

    __tablename__ = "api_key_use"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "key_id"], ["api_key.tenant_id", "api_key.id"], ondelete="CASCADE"),
        {"postgresql_with": {"fillfactor": "70"}},
    )

    key_id: Mapped[UUID] = mapped_column(primary_key=True)
    last_used_at: Mapped[datetime]


class Chat(CreatedAtMixin, TenantOwnedMixin, Base):
    """Owner of a chat without a user: the user whose restricted key uploaded its first document. A chat has no row if a
    key without a user uploaded its first document, or if its documents name their user.
    """

    __tablename__ = "chat"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    chat_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str]


class Job(CreatedAtMixin, TenantOwnedMixin, Base):
    """A unit of background work, enqueued in the transaction that changes its subject.

    A job with ``every`` is periodic: when it is done, it waits for its next time. ``quota_key_id`` is the API key whose
    quota limits the number of running jobs.
    """

    __tablename__ = "job"
    __table_args__ = (
        CheckConstraint("state in ('ready', 'running', 'dead')", name="state"),
        ForeignKeyConstraint(["tenant_id", "document_id"], ["document.tenant_id", "document.id"], ondelete="CASCADE"),
        Index(
            "job_ready_idx",
            "tenant_id",
            text("priority desc"),
            "run_at",
            "id",
            postgresql_where=text("state = 'ready' and quota_key_id is null and kind <> 'send_webhook'"),
        ),
        Index(
            "job_delivery_idx",
            "tenant_id",
            "run_at",
            "id",
            postgresql_where=text("state = 'ready' and kind = 'send_webhook'"),
        ),
        Index(
            "job_key_idx",
            "tenant_id",
            "quota_key_id",
            text("priority desc"),
            "run_at",
            "id",
            postgresql_where=text("state = 'ready' and quota_key_id is not null"),
        ),
        Index("job_running_idx", "tenant_id", "lease_until", postgresql_where=text("state = 'running'")),
        Index("job_dead_idx", "tenant_id", "run_at", postgresql_where=text("state = 'dead'")),
        Index("job_document_idx", "tenant_id", "document_id"),
        Index("job_periodic_idx", "tenant_id", "run_at", postgresql_where=text("every is not null")),
        {"postgresql_with": {"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.02"}},
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    kind: Mapped[str]
    document_id: Mapped[UUID | None]
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    priority: Mapped[int] = mapped_column(SmallInteger, server_default=text("0"))
    state: Mapped[str] = mapped_column(server_default=text("'ready'"))
    run_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    max_attempts: Mapped[int] = mapped_column(server_default=text("5"))
    worker: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    every: Mapped[timedelta | None]
    quota_key_id: Mapped[UUID | None]


class TenantQueue(Base):
    """Time of a tenant's last claimed job. ``max_running`` replaces the default limit of running jobs."""

    __tablename__ = "tenant_queue"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    max_running: Mapped[int | None] = mapped_column(SmallInteger)
    last_claim: Mapped[datetime] = mapped_column(server_default=text("'-infinity'"))


class WorkerHeartbeat(TenantOwnedMixin, Base):
    """Last heartbeat of a worker, written by its event loop. The rows belong to the system tenant."""

    __tablename__ = "worker_heartbeat"
    __table_args__ = ({"prefixes": ["UNLOGGED"], "postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=func.now())
    outages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    confinement: Mapped[str | None]
    confinement_detail: Mapped[str | None]


# The secret of the digests that name tenants and documents in notifications. The table has one row and no primary key.
notification_secret = Table("notification_secret", Base.metadata, Column("secret", Text, nullable=False))


class ProviderRateLimit(TenantOwnedMixin, Base):
    """Remaining rate limit of a model provider, and the end of its pause. The rows belong to the system tenant."""

    __tablename__ = "provider_rate_limit"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    provider: Mapped[UUID] = mapped_column(primary_key=True)
    requests: Mapped[float] = mapped_column(Double, server_default=text("0"))
    tokens: Mapped[float] = mapped_column(Double, server_default=text("0"))
    filled_at: Mapped[datetime] = mapped_column(server_default=func.now())
    paused_until: Mapped[datetime | None]

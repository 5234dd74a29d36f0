"""Control plane: tenants, their keys, whose their chats are, and the job queue."""

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
    """A customer; ``deleted_at`` shuts its keys out while its rows and objects are removed.

    ``sql_views`` says whether the operator lets its admins publish knowledge bases as SQL views.
    """

    __tablename__ = "tenant"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    deleted_at: Mapped[datetime | None]
    quotas: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    sql_views: Mapped[bool] = mapped_column(server_default=text("false"))


class ApiKeyRow(CreatedAtMixin, TenantOwnedMixin, Base):
    """A credential. Only the SHA-256 of the key is stored; ``hint`` is its beginning, for people.

    ``replaced_by`` is the key that a rotation created in its place. ``key_lineage_id`` is the first key of such a
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
    """The last use of a key, to the minute; not a column of the key, whose changes are sent to every process."""

    __tablename__ = "api_key_use"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "key_id"], ["api_key.tenant_id", "api_key.id"], ondelete="CASCADE"),
        {"postgresql_with": {"fillfactor": "70"}},
    )

    key_id: Mapped[UUID] = mapped_column(primary_key=True)
    last_used_at: Mapped[datetime]


class Chat(CreatedAtMixin, TenantOwnedMixin, Base):
    """Whose a chat is: of the user whose key has put the first document into it; others have no row."""

    __tablename__ = "chat"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    chat_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str]


class Job(CreatedAtMixin, TenantOwnedMixin, Base):
    """A unit of background work, enqueued in the transaction of the row that it is about.

    A job with ``every`` is periodic: when it is done, it waits for its next time. ``quota_key_id`` is the key whose
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
    """A tenant's turn at the queue; ``max_running`` is its own limit instead of the usual one."""

    __tablename__ = "tenant_queue"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    max_running: Mapped[int | None] = mapped_column(SmallInteger)
    last_claim: Mapped[datetime] = mapped_column(server_default=text("'-infinity'"))


class WorkerHeartbeat(TenantOwnedMixin, Base):
    """A worker's last sign of life, written by its event loop; rows of the system tenant."""

    __tablename__ = "worker_heartbeat"
    __table_args__ = ({"prefixes": ["UNLOGGED"], "postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    heartbeat_at: Mapped[datetime] = mapped_column(server_default=func.now())
    outages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    confinement: Mapped[str | None]
    confinement_detail: Mapped[str | None]


# One row, and no key: what notifications are named with.
notification_secret = Table("notification_secret", Base.metadata, Column("secret", Text, nullable=False))


class ProviderRateLimit(TenantOwnedMixin, Base):
    """The remaining rate limit of a model provider, and the end of its pause; rows of the system tenant."""

    __tablename__ = "provider_rate_limit"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    provider: Mapped[UUID] = mapped_column(primary_key=True)
    requests: Mapped[float] = mapped_column(Double, server_default=text("0"))
    tokens: Mapped[float] = mapped_column(Double, server_default=text("0"))
    filled_at: Mapped[datetime] = mapped_column(server_default=func.now())
    paused_until: Mapped[datetime | None]

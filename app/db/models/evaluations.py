"""Tables of golden sets and evaluations. Row-level security is forced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, LargeBinary, SmallInteger, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin, UpdatedAtMixin

_NO_ITEMS = text("'[]'")


class GoldenSetRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """A golden set: queries whose relevant documents are known."""

    __tablename__ = "golden_set"
    __table_args__ = (Index(None, "tenant_id", "created_at", "id"),)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None]


class GoldenItemRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """A query of a golden set with the ids of what is relevant. ``digest`` is the hash of the query."""

    __tablename__ = "golden_item"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "set_id"], ["golden_set.tenant_id", "golden_set.id"], ondelete="CASCADE"),
        CheckConstraint("num_nonnulls(query, messages) = 1", name="query"),
        Index("golden_item_digest", "tenant_id", "set_id", "digest", unique=True),
    )

    set_id: Mapped[UUID] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    query: Mapped[str | None]
    messages: Mapped[list[dict[str, Any]] | None] = mapped_column(JSONB)
    digest: Mapped[bytes] = mapped_column(LargeBinary)
    relevant: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)


class EvaluationRow(CreatedAtMixin, TenantOwnedMixin, Base):
    """A run of a golden set with one or two search settings."""

    __tablename__ = "evaluation"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "set_id"], ["golden_set.tenant_id", "golden_set.id"], ondelete="CASCADE"),
        CheckConstraint("state in ('queued', 'running', 'done', 'failed')", name="state"),
        Index(None, "tenant_id", "set_id"),
        Index(None, "tenant_id", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    set_id: Mapped[UUID]
    settings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    state: Mapped[str] = mapped_column(server_default=text("'queued'"))
    done: Mapped[int] = mapped_column(server_default=text("0"))
    total: Mapped[int]
    figures: Mapped[dict[str, Any] | None]
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    error: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]


class EvaluationResultRow(TenantOwnedMixin, Base):
    """The result of one query with one setting, with ids only."""

    __tablename__ = "evaluation_result"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "evaluation_id"], ["evaluation.tenant_id", "evaluation.id"], ondelete="CASCADE"
        ),
    )

    evaluation_id: Mapped[UUID] = mapped_column(primary_key=True)
    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    setting: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    result: Mapped[dict[str, Any]]

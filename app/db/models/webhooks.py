"""Tables of webhooks and their deliveries. Row-level security is forced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin, UpdatedAtMixin


class WebhookRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """An address that receives events. Until ``former_until``, deliveries are also signed with ``former_secret``."""

    __tablename__ = "webhook"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    url: Mapped[str]
    description: Mapped[str | None]
    events: Mapped[list[str]] = mapped_column(ARRAY(Text))
    secret: Mapped[bytes]
    former_secret: Mapped[bytes | None]
    former_until: Mapped[datetime | None]
    enabled: Mapped[bool] = mapped_column(server_default=text("true"))
    disabled_reason: Mapped[str | None]
    failures: Mapped[int] = mapped_column(server_default=text("0"))
    paused_until: Mapped[datetime | None]


class WebhookDelivery(TenantOwnedMixin, Base):
    """An event for one webhook. A trigger writes it in the transaction of the event, and a job sends it."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "webhook_id"], ["webhook.tenant_id", "webhook.id"], ondelete="CASCADE"),
        CheckConstraint("status in ('pending', 'delivered', 'dead')", name="status"),
        Index(None, "tenant_id", "webhook_id", "created_at", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    webhook_id: Mapped[UUID]
    event: Mapped[str]
    data: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(server_default=text("'pending'"))
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    response_status: Mapped[int | None]
    reason: Mapped[str | None]
    attempted_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())

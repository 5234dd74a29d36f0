"""Table of audit events. Row-level security is forced. Rows are inserted and read, never updated."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin


class AuditEventRow(TenantOwnedMixin, Base):
    """Actor, action, object, time and origin of an operation. Rows remain when the object or the tenant is deleted."""

    __tablename__ = "audit_event"
    __table_args__ = (
        CheckConstraint("actor in ('key', 'operator', 'token', 'service', 'unknown')", name="actor"),
        Index("audit_event_created_at_idx", "created_at", postgresql_using="brin"),
        Index("audit_event_tenants_idx", "created_at", "id", postgresql_where=text("object_type = 'tenant'")),
    )

    created_at: Mapped[datetime] = mapped_column(primary_key=True, server_default=func.now())
    id: Mapped[UUID] = mapped_column(primary_key=True)
    action: Mapped[str]
    object_type: Mapped[str]
    object_ids: Mapped[list[UUID]] = mapped_column(ARRAY(PG_UUID(as_uuid=True)))
    kb_id: Mapped[UUID | None]
    deletion_id: Mapped[UUID | None]
    counts: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))
    actor: Mapped[str]
    actor_id: Mapped[UUID | None]
    actor_name: Mapped[str | None]
    request_id: Mapped[str | None]
    address: Mapped[str | None]

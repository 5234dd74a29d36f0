"""Bindings of agents. Row-level security is forced on every table."""

from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin, UpdatedAtMixin


class AgentBindingRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """The knowledge bases and the limits of an agent, which is named by its platform; ``id`` is our own name for it."""

    __tablename__ = "agent_binding"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[UUID]
    knowledge_base_ids: Mapped[list[UUID]] = mapped_column(ARRAY(PG_UUID(as_uuid=True)), server_default=text("'{}'"))
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))

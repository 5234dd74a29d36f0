"""Table of agent bindings. Row-level security is forced."""

from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.dialects.postgresql import UUID as PG_UUID
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin, UpdatedAtMixin


class AgentBindingRow(UpdatedAtMixin, TenantOwnedMixin, Base):
    """Knowledge bases and limits of an agent.

    The agent's platform chooses ``agent_id``; ``id`` is Carrel's id of the binding.
    """

    __tablename__ = "agent_binding"

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[UUID]
    knowledge_base_ids: Mapped[list[UUID]] = mapped_column(ARRAY(PG_UUID(as_uuid=True)), server_default=text("'{}'"))
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"))

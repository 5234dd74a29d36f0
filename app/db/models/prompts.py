"""Table of prompt versions. Row-level security is forced."""

from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, CreatedAtMixin, TenantOwnedMixin


class PromptVersionRow(CreatedAtMixin, TenantOwnedMixin, Base):
    """A present or former prompt text of a knowledge base or an agent. The version is deleted with the knowledge base
    or agent.
    """

    __tablename__ = "prompt_version"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"], ondelete="CASCADE"
        ),
        ForeignKeyConstraint(
            ["tenant_id", "agent_id"], ["agent_binding.tenant_id", "agent_binding.agent_id"], ondelete="CASCADE"
        ),
        CheckConstraint("num_nonnulls(kb_id, agent_id) = 1", name="owner"),
        CheckConstraint("prompt in ('rewrite', 'answer')", name="prompt"),
        Index(
            "prompt_version_kb_idx", "tenant_id", "kb_id", "prompt", "number",
            unique=True, postgresql_where=text("kb_id is not null"),
        ),
        Index(
            "prompt_version_agent_idx", "tenant_id", "agent_id", "prompt", "number",
            unique=True, postgresql_where=text("agent_id is not null"),
        ),
    )  # fmt: skip

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID | None]
    agent_id: Mapped[str | None]
    prompt: Mapped[str]
    number: Mapped[int]
    text: Mapped[str]
    key_id: Mapped[UUID | None]

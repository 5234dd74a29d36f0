"""Table of SQL views of knowledge bases. Row-level security is forced."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin, UpdatedAtMixin


class SqlView(UpdatedAtMixin, TenantOwnedMixin, Base):
    """A SQL view of a knowledge base with its login. ``index_id`` is the search index that the view shows.

    ``removed_at`` is the time of the revocation. The row and the knowledge base remain until view, schema and login are
    dropped.
    """

    __tablename__ = "sql_view"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "kb_id"], ["knowledge_base.tenant_id", "knowledge_base.id"]),
        CheckConstraint("collection ~ '^[a-z_][a-z0-9_]{0,62}$' and collection !~ '^pg_'", name="collection"),
        CheckConstraint("content_key ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$'", name="content_key"),
        CheckConstraint("verifier ~ '^SCRAM-SHA-256\\$[A-Za-z0-9+/=:$]{80,200}$'", name="verifier"),
        Index("sql_view_kb_idx", "tenant_id", "kb_id", unique=True, postgresql_where=text("removed_at is null")),
    )

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    kb_id: Mapped[UUID]
    collection: Mapped[str]
    content_key: Mapped[str]
    verifier: Mapped[str]
    index_id: Mapped[UUID | None]
    blocked_reason: Mapped[str | None]
    removed_at: Mapped[datetime | None]

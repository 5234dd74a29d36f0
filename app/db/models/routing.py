"""Profiles of knowledge bases: vectors that routing compares. Row-level security is forced on every table."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import BigInteger, ForeignKeyConstraint, SmallInteger, func, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin


class RoutingProfile(TenantOwnedMixin, Base):
    """The source and the model of a search index's profile; ``changed_chunks`` counts the changes since it was made."""

    __tablename__ = "routing_profile"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "index_id"], ["search_index.tenant_id", "search_index.id"], ondelete="CASCADE"
        ),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    model: Mapped[UUID | None]
    chunks: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    changed_chunks: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    texts_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class RoutingVector(TenantOwnedMixin, Base):
    """A centroid of a search index's chunks, or the vector of what people have said it is about (``described``)."""

    __tablename__ = "routing_vector"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "index_id"], ["routing_profile.tenant_id", "routing_profile.index_id"], ondelete="CASCADE"
        ),
    )

    index_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    described: Mapped[bool]
    embedding: Mapped[Any] = mapped_column(HALFVEC())

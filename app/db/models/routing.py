"""Tables of routing profiles: vectors that choose knowledge bases for a query. Row-level security is forced."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import BigInteger, ForeignKeyConstraint, SmallInteger, func, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin


class RoutingProfile(TenantOwnedMixin, Base):
    """Routing profile of a search index.

    ``chunks`` is the number of chunks at the creation of the profile. ``changed_chunks`` counts changes since then.
    """

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
    """A vector of a routing profile: a centroid of chunks, or the vector of a description (``described``)."""

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

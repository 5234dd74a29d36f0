"""Usage of tenants: storage, requests of each key by day, and the state of rate limits."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import BigInteger, Double, ForeignKey, ForeignKeyConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin

_NONE = text("0")


class TenantUsage(TenantOwnedMixin, Base):
    """The current storage of a tenant with quotas, counted by triggers; a tenant without quotas has no row."""

    __tablename__ = "tenant_usage"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    documents: Mapped[int] = mapped_column(BigInteger)
    stored_bytes: Mapped[int] = mapped_column(BigInteger)
    chunks: Mapped[int] = mapped_column(BigInteger)


class QuotaLock(TenantOwnedMixin, Base):
    """The row that is locked while what the keys of a tenant have used today is added up."""

    __tablename__ = "quota_lock"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)


class KeyUsage(TenantOwnedMixin, Base):
    """The current storage of a key and of the keys that rotation made of it; a key without quotas has no row."""

    __tablename__ = "key_usage"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "key_id"], ["api_key.tenant_id", "api_key.id"], ondelete="CASCADE"),
        {"postgresql_with": {"fillfactor": "50"}},
    )

    key_id: Mapped[UUID] = mapped_column(primary_key=True)
    documents: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    stored_bytes: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    chunks: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)


class UsageDay(TenantOwnedMixin, Base):
    """The requests of a key on a day (UTC); a ``key_id`` of zeros means no key."""

    __tablename__ = "usage_day"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    key_id: Mapped[UUID] = mapped_column(primary_key=True)
    uploads: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    documents: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    bytes: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    chunks: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    searches: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    embedding_tokens: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    query_tokens: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)


class RateBucket(TenantOwnedMixin, Base):
    """Searches that a tenant, or a key of it, has left; ``granted`` is what was taken last."""

    __tablename__ = "rate_bucket"
    __table_args__ = ({"prefixes": ["UNLOGGED"], "postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    bucket: Mapped[UUID] = mapped_column(primary_key=True)
    tokens: Mapped[float] = mapped_column(Double)
    granted: Mapped[float] = mapped_column(Double)
    filled_at: Mapped[datetime]


class RowAllowance(TenantOwnedMixin, Base):
    """How many more rows a tenant can add before they are counted again, by quota.

    ``maximum`` is the quota that ``remaining`` was computed from.
    """

    __tablename__ = "row_allowance"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    quota: Mapped[str] = mapped_column(primary_key=True)
    remaining: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    maximum: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)

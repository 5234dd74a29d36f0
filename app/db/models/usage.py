"""Tables of usage: storage, requests of each API key by day, and state of rate limits. Row-level security is forced."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import BigInteger, Double, ForeignKey, ForeignKeyConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base, TenantOwnedMixin

_NONE = text("0")


class TenantUsage(TenantOwnedMixin, Base):
    """Current storage of a tenant with quotas, counted by triggers. A tenant without quotas has no row."""

    __tablename__ = "tenant_usage"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    documents: Mapped[int] = mapped_column(BigInteger)
    stored_bytes: Mapped[int] = mapped_column(BigInteger)
    chunks: Mapped[int] = mapped_column(BigInteger)


class QuotaLock(TenantOwnedMixin, Base):
    """A row that is locked while the day's usage of all API keys of a tenant is summed."""

    __tablename__ = "quota_lock"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)


class KeyUsage(TenantOwnedMixin, Base):
    """Current storage of an API key with quotas, including its replacements from rotations.

    An API key without quotas has no row.
    """

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
    """Usage of an API key on one day (UTC). A ``key_id`` of zeros means requests without an API key."""

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
    """Remaining searches of a tenant or an API key (token bucket). ``granted`` is the number of searches that the last
    withdrawal took.
    """

    __tablename__ = "rate_bucket"
    __table_args__ = ({"prefixes": ["UNLOGGED"], "postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    bucket: Mapped[UUID] = mapped_column(primary_key=True)
    tokens: Mapped[float] = mapped_column(Double)
    granted: Mapped[float] = mapped_column(Double)
    filled_at: Mapped[datetime]


class RowAllowance(TenantOwnedMixin, Base):
    """Number of rows that a tenant can add before its rows are counted again, by quota.

    ``maximum`` is the quota from which ``remaining`` was computed.
    """

    __tablename__ = "row_allowance"
    __table_args__ = ({"postgresql_with": {"fillfactor": "50"}},)

    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True)
    quota: Mapped[str] = mapped_column(primary_key=True)
    remaining: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)
    maximum: Mapped[int] = mapped_column(BigInteger, server_default=_NONE)

"""Base class of all tables: naming convention, column types, tenant column and time columns."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import DateTime, MetaData, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SYSTEM_TENANT = UUID("00000000-0000-0000-0000-000000000001")


class Base(DeclarativeBase):
    """Base of all tables. Constraint names follow one convention, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "ck": "%(table_name)s_%(constraint_name)s_check",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "pk": "%(table_name)s_pkey",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict[str, Any]: JSONB,
        list[str]: JSONB,
        datetime: DateTime(timezone=True),
        str: Text,
    }


class TenantOwnedMixin:
    """Column ``tenant_id``. The column is first in every primary key, unique constraint and foreign key, so tables can
    be sharded by tenant.
    """

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)


class CreatedAtMixin:
    """Time of the row's creation."""

    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class UpdatedAtMixin(CreatedAtMixin):
    """Times of the row's creation and last change."""

    updated_at: Mapped[datetime] = mapped_column(server_default=func.now(), onupdate=func.now())

"""Settings of pgvector sources: the databases that tenants may search, and the passwords of their roles."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

from app.settings.http_sources import TenantName
from app.settings.settings_group import SettingsGroup, env_field, parse_bindings

HOSTNAME_PATTERN = r"^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45})$"


def _check_hostname(value: str) -> str:
    if not re.fullmatch(HOSTNAME_PATTERN, value):
        raise ValueError("takes a bare host such as db.example.com")
    return value.lower()


class DatabaseSecret(BaseModel):
    """Password of a role. A tenant's source names the secret; the value is never shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str = Field(min_length=1, max_length=63, description="Role that the password belongs to.")
    value: SecretStr = Field(min_length=1, description="The password.")


class PgvectorBinding(BaseModel):
    """Permission of the operator: the tenants that may search collections of one database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hostname: Annotated[str, AfterValidator(_check_hostname)] = Field(description="Host of the database.")
    port: int = Field(5432, ge=1, le=65535, description="Port of the database.")
    dbname: str = Field(min_length=1, max_length=63, description="Name of the database.")
    tenants: tuple[TenantName, ...] = Field(
        min_length=1, description="IDs of the tenants (ten_…) that may use the database; * for all tenants."
    )
    collections: tuple[str, ...] | None = Field(
        None, description="Collections that tenants may search; null allows all that the role may read."
    )
    secrets: dict[Annotated[str, Field(min_length=1, max_length=100)], DatabaseSecret] = Field(
        min_length=1, description="Passwords by the name that tenants use for them."
    )
    allow_private: bool = Field(
        False,
        strict=True,
        description="Whether the host's name may resolve to addresses outside the public internet. "
        "A literal IP address needs no permission.",
    )


class PgvectorSourceSettings(SettingsGroup):
    """pgvector sources: databases that knowledge bases of kind pgvector may search. By default none is allowed."""

    bindings: Annotated[tuple[PgvectorBinding, ...], NoDecode, BeforeValidator(parse_bindings)] = env_field(
        "PGVECTOR_SOURCES",
        (),
        description="Allowed databases as a JSON list. Each entry binds a database to tenants, collections and "
        "passwords.",
        examples=[
            '[{"hostname": "db.example.com", "dbname": "vectors", "tenants": ["*"], '
            '"secrets": {"NAME": {"user": "reader", "value": "…"}}}]'
        ],
        read_by="API",
    )

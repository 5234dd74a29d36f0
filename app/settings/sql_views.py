"""Settings of SQL views: whether tenants may create them, and the connection details of the database."""

from typing import Literal

from app.settings.settings_group import SettingsGroup, env_field

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class SqlViewSettings(SettingsGroup):
    """Connection details that are not set are those of the URL that the service itself uses."""

    enabled: bool = env_field("SQL_VIEWS", False)
    host: str | None = env_field("SQL_VIEW_HOST", None)
    port: int | None = env_field("SQL_VIEW_PORT", None, ge=1, le=65535)
    database: str | None = env_field("SQL_VIEW_DATABASE", None)
    sslmode: SslMode | None = env_field("SQL_VIEW_SSLMODE", None)

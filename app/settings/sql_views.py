"""Settings of publications: whether there are any, and how others reach the database."""

from typing import Literal

from app.settings.settings_group import SettingsGroup, create_env_field

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class SqlViewSettings(SettingsGroup):
    """What is not set is as in the URL that the service itself uses."""

    allowed: bool = create_env_field("PUBLICATION", False)
    host: str | None = create_env_field("PUBLICATION_HOST", None)
    port: int | None = create_env_field("PUBLICATION_PORT", None, ge=1, le=65535)
    database: str | None = create_env_field("PUBLICATION_DATABASE", None)
    sslmode: SslMode | None = create_env_field("PUBLICATION_SSLMODE", None)

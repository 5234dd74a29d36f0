"""Settings of publications: whether there are any, and how others reach the database."""

from typing import Literal

from app.settings.group import Group, env

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class PublicationSettings(Group):
    """What is not set is as in the URL that the service itself uses."""

    allowed: bool = env("PUBLICATION", False)
    host: str | None = env("PUBLICATION_HOST", None)
    port: int | None = env("PUBLICATION_PORT", None, ge=1, le=65535)
    database: str | None = env("PUBLICATION_DATABASE", None)
    sslmode: SslMode | None = env("PUBLICATION_SSLMODE", None)

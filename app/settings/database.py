"""Settings of the database: the URLs of its two roles, and the connection pool."""

from typing import Self

from pydantic import model_validator

from app.settings.settings_group import PREFIX, PostgresUrl, SettingsGroup, env_field


class DatabaseSettings(SettingsGroup):
    """Database: an external Postgres. If no URL is set, the service starts an embedded Postgres."""

    url: PostgresUrl | None = env_field(
        "DATABASE_URL",
        None,
        description="URL of the database for requests and jobs. The user must be a plain role that owns nothing.",
        examples=["postgresql://carrel_app:password@localhost:5432/carrel"],
        read_by="API and worker",
    )
    admin_url: PostgresUrl | None = env_field(
        "ADMIN_DATABASE_URL",
        None,
        description="URL of the same database for the role that owns the tables. The role needs no superuser rights. "
        "`carrel migrate` requires the URL, and the worker uses it to build and drop database indexes.",
        examples=["postgresql://carrel_owner:password@localhost:5432/carrel"],
        read_by="worker",
    )
    pool_size: int = env_field(
        "DATABASE_POOL_SIZE",
        10,
        ge=1,
        le=200,
        unit="connections",
        description="Maximum number of database connections that each process keeps open. Under load a process "
        "opens up to as many again for a short time.",
        read_by="API and worker",
    )

    @model_validator(mode="after")
    def _require_url(self) -> Self:
        """Refuse the owner's URL without ``CARREL_DATABASE_URL``: the service would not use the database that is
        migrated.
        """
        if self.admin_url is not None and self.url is None:
            raise ValueError(f"{PREFIX}DATABASE_URL must be set if {PREFIX}ADMIN_DATABASE_URL is")
        return self

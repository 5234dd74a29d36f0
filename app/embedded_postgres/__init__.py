"""The embedded Postgres of ``carrel serve``: one cluster for each data directory, supervised by its process."""

from app.embedded_postgres.errors import (
    ClusterUnusable,
    DataDirectoryInUse,
    EmbeddedPostgresError,
    EmbeddedPostgresMissing,
    PortInUse,
    PostgresFailed,
)
from app.embedded_postgres.roles import DatabaseUrls
from app.embedded_postgres.supervisor import EmbeddedPostgres

__all__ = [
    "ClusterUnusable",
    "DataDirectoryInUse",
    "DatabaseUrls",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "EmbeddedPostgresMissing",
    "PortInUse",
    "PostgresFailed",
]

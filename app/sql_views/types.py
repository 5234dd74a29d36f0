"""Types of SQL views: stored rows, connection details, warnings and errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

from app.errors import ConflictError, NotFoundError
from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.local_models import is_local
from app.settings import SqlViewSettings
from app.warnings import ServiceWarning, WarningCode

COLLECTION_PATTERN = r"^[a-z_][a-z0-9_]{0,62}$"
RESERVED_PREFIX = "pg_"  # Postgres searches its system catalog first
CONTENT_KEY_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$"
DEFAULT_PORT = 5432
MAX_NAME_LENGTH = 63


class SqlViewsDisabled(ConflictError):
    """SQL views are not allowed for this tenant. Ask the operator to allow them."""

    code = "sql_views_disabled"


class SqlViewExists(ConflictError):
    """The knowledge base has a SQL view already. Delete it to get one with a new password."""

    code = "sql_view_exists"


class SqlViewNotFound(NotFoundError):
    """The knowledge base has no SQL view. Create one first."""

    code = "sql_view_not_found"


class SqlViewUnsupported(ConflictError):
    """A shared knowledge base cannot have a SQL view. Use a tenant's knowledge base."""

    code = "sql_view_unsupported"


@dataclass(frozen=True, slots=True)
class ConnectionAddress:
    """Address of the database for readers of SQL views."""

    host: str
    port: int
    database: str
    sslmode: str

    @classmethod
    def from_settings(cls, settings: SqlViewSettings, database_url: str, *, is_embedded: bool) -> Self:
        """Return the configured address, with the service's own database as the default for each part.

        Args:
            settings: The settings of SQL views.
            database_url: The URL of the service's database.
            is_embedded: Whether the database is the embedded Postgres, which has no TLS.

        Returns:
            The address.
        """
        parts = urlsplit(database_url)
        options = dict(re.findall(r"(\w+)=([^&]*)", parts.query))
        return cls(
            settings.host or parts.hostname or "localhost",
            settings.port or parts.port or DEFAULT_PORT,
            settings.database or unquote(parts.path.strip("/")),
            settings.sslmode or ("disable" if is_embedded else options.get("sslmode", "prefer")),
        )


@dataclass(frozen=True, slots=True)
class StoredSqlView:
    """A stored SQL view; ``is_ready`` is True if the view exists, otherwise ``blocked_reason`` may give the cause."""

    id: UUID
    kb_id: UUID
    collection: str
    content_key: str
    is_ready: bool
    blocked_reason: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SqlViewDetails:
    """A SQL view with the connection details that an agent platform needs to read it."""

    stored: StoredSqlView
    login: str
    address: ConnectionAddress
    identity: Mapping[str, Any]
    dim: int

    @property
    def warnings(self) -> Sequence[ServiceWarning]:
        """Warnings about query vectors that need a local model or a prefix, and about connections without TLS."""
        identity = EmbeddingIdentity.from_index_identity(self.identity)
        result = []
        if is_local(identity.model, identity.precision):
            message = f"The vectors are from the local model {identity.model}. A platform needs it to embed queries."
            result.append(ServiceWarning(WarningCode.EMBEDDED_MODEL, message))
        if identity.query_prefix:
            message = f"The platform must prepend {identity.query_prefix!r} to each query that it embeds."
            result.append(ServiceWarning(WarningCode.QUERY_PREFIX, message))
        if self.address.sslmode in ("disable", "allow", "prefer"):
            message = f"With sslmode {self.address.sslmode}, results may cross the network without encryption."
            result.append(ServiceWarning(WarningCode.NO_TLS, message))
        return result

    @property
    def connection_info(self) -> dict[str, Any]:
        """Connection block for the platform's configuration."""
        return {
            "type": "pgvector",
            "hostname": self.address.host,
            "port": self.address.port,
            "user": self.login,
            "dbname": self.address.database,
            "sslmode": self.address.sslmode,
            "collection": self.stored.collection,
            "content_key": self.stored.content_key,
            "embedding_model": self.identity["model"],
            "embedding_dimensions": self.dim,
        }


def build_default_view_name(name: str) -> str:
    """Return a knowledge base's name as an SQL identifier that needs no quotes."""
    word = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[: MAX_NAME_LENGTH - 3]
    is_valid = re.match(COLLECTION_PATTERN, word) and not word.startswith(RESERVED_PREFIX)
    return word if is_valid else f"kb_{word}".rstrip("_")

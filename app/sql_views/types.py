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
from app.inference.embedding.weights import MODEL
from app.settings import SqlViewSettings
from app.warnings import ServiceWarning, WarningCode

COLLECTION_PATTERN = r"^[a-z_][a-z0-9_]{0,62}$"
RESERVED_PREFIX = "pg_"  # Postgres' own are found before all others
CONTENT_KEY_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$"
DEFAULT_PORT = 5432
MAX_NAME_LENGTH = 63


class SqlViewsDisabled(ConflictError):
    """The operator does not allow this tenant to create SQL views."""

    code = "sql_views_disabled"


class SqlViewExists(ConflictError):
    """The knowledge base has a SQL view already; delete it first: its password is shown once."""

    code = "sql_view_exists"


class SqlViewNotFound(NotFoundError):
    """The knowledge base has no SQL view."""

    code = "sql_view_not_found"


class SqlViewUnsupported(ConflictError):
    """Shared knowledge bases cannot have a SQL view."""

    code = "sql_view_unsupported"


@dataclass(frozen=True, slots=True)
class ConnectionAddress:
    """Where the readers find the database."""

    host: str
    port: int
    database: str
    sslmode: str

    @classmethod
    def from_settings(cls, settings: SqlViewSettings, database_url: str, *, is_embedded: bool) -> Self:
        """What is set, over what the service itself uses. The embedded Postgres has no TLS."""
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
    """A SQL view as it is stored; ``is_ready`` once the view exists, else ``blocked_reason`` may say why not."""

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
        """Where the readers' vectors would be others than ours, and where what is read can be overheard."""
        identity = EmbeddingIdentity.from_index_identity(self.identity)
        result = []
        if identity.model == MODEL:
            message = "The vectors are the embedded model's: a platform without it cannot embed its queries alike."
            result.append(ServiceWarning(WarningCode.EMBEDDED_MODEL, message))
        if identity.query_prefix:
            message = f"The platform must put this before each query that it embeds: {identity.query_prefix!r}"
            result.append(ServiceWarning(WarningCode.QUERY_PREFIX, message))
        if self.address.sslmode in ("disable", "allow", "prefer"):
            message = f"With sslmode {self.address.sslmode} what is read may go through the network in the clear."
            result.append(ServiceWarning(WarningCode.NO_TLS, message))
        return result

    @property
    def connection_info(self) -> dict[str, Any]:
        """The block for the platform's configuration."""
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
    """A knowledge base's name as an identifier that needs no quotes."""
    word = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[: MAX_NAME_LENGTH - 3]
    is_valid = re.match(COLLECTION_PATTERN, word) and not word.startswith(RESERVED_PREFIX)
    return word if is_valid else f"kb_{word}".rstrip("_")

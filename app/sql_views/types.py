"""Types of SQL views: stored rows, connection details, warnings and errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

from app.errors import ConflictError, NotFoundError
from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.local_models import is_local
from app.settings import SqlViewSettings
from app.sql_views.connection_info import ConnectionOptions, build_prompt_reference, choose_provider
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
    """Address of the database for readers of SQL views.

    ``provider`` is the provider of the embedding model on the platform, or None if the settings name none.
    """

    host: str
    port: int
    database: str
    sslmode: str
    provider: str | None = None

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
            settings.embedding_provider,
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
    """A SQL view with the connection details that an agent platform needs to read it.

    Attributes:
        stored: The stored SQL view.
        login: Database role that reads the view.
        schema: Schema of the view.
        address: Address of the database.
        identity: Embedding model of the live search index, and the analyzer.
        dim: Number of dimensions of the vectors.
        knowledge_base: Name of the knowledge base.
        metadata_filter: Metadata that every row has.
        answer_prompt_version: Version of the answer prompt of the knowledge base; None without one.
        options: Choices of the caller for the connection block.
    """

    stored: StoredSqlView
    login: str
    schema: str
    address: ConnectionAddress
    identity: Mapping[str, Any]
    dim: int
    knowledge_base: str
    metadata_filter: Mapping[str, Any] = field(default_factory=dict)
    answer_prompt_version: int | None = None
    options: ConnectionOptions = field(default_factory=ConnectionOptions)

    @property
    def warnings(self) -> Sequence[ServiceWarning]:
        """Warnings about query vectors that need a local model or a prefix, a guessed provider, and missing TLS."""
        identity = EmbeddingIdentity.from_index_identity(self.identity)
        result = []
        if is_local(identity.model, identity.precision):
            message = f"The vectors are from the local model {identity.model}. A platform needs it to embed queries."
            result.append(ServiceWarning(WarningCode.EMBEDDED_MODEL, message))
        if self._is_provider_guessed:
            message = f"The provider of {identity.model} is a guess. Send provider, or set CARREL_SQL_VIEW_PROVIDER."
            result.append(ServiceWarning(WarningCode.PROVIDER_ASSUMED, message))
        if identity.query_prefix:
            message = f"The platform must prepend {identity.query_prefix!r} to each query that it embeds."
            result.append(ServiceWarning(WarningCode.QUERY_PREFIX, message))
        if self.address.sslmode in ("disable", "allow", "prefer"):
            message = f"With sslmode {self.address.sslmode}, results may cross the network without encryption."
            result.append(ServiceWarning(WarningCode.NO_TLS, message))
        return result

    @property
    def connection_info(self) -> dict[str, Any]:
        """Connection block for the platform's configuration. The password is a reference to a variable."""
        provider, _ = self._provider
        return {
            "type": "pgvector",
            "hostname": self.address.host,
            "port": self.address.port,
            "user": self.login,
            "password": f"${{{self.options.password_variable}}}",
            "dbname": self.address.database,
            "sslmode": self.address.sslmode,
            "collection": f"{self.schema}.{self.stored.collection}",
            "content_key": self.stored.content_key,
            "metadata_filter": {**self.options.metadata_filter, **self.metadata_filter},
            "embedding_model": f"{provider}/{self.identity['model']}",
            "embedding_dimensions": self.dim,
            "top_k": self.options.top_k,
            "prompt": build_prompt_reference(self.options, self.knowledge_base, self.answer_prompt_version),
        }

    @property
    def _is_provider_guessed(self) -> bool:
        return self._provider[1]

    @property
    def _provider(self) -> tuple[str, bool]:
        identity = EmbeddingIdentity.from_index_identity(self.identity)
        return choose_provider(self.options, self.address.provider, identity)


def build_default_view_name(name: str) -> str:
    """Return a knowledge base's name as an SQL identifier that needs no quotes."""
    word = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[: MAX_NAME_LENGTH - 3]
    is_valid = re.match(COLLECTION_PATTERN, word) and not word.startswith(RESERVED_PREFIX)
    return word if is_valid else f"kb_{word}".rstrip("_")

"""Kind ``pgvector``: a table or view of another database with the columns ``id``, ``vec`` and ``metadata``."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, ClassVar, Literal, Self
from uuid import UUID

from cachetools import LRUCache

from app.db.foreign_collections import (
    CONNECTION_ERRORS,
    CollectionRow,
    CollectionUnusable,
    ForeignDatabase,
    SslMode,
    connect_read_only,
    find_nearest,
    find_vector_type,
)
from app.errors import InvalidInputError
from app.http_sources.addresses import HostResolver, resolve_host
from app.http_sources.allowlist import EVERY_TENANT
from app.http_sources.client import HANG_TIMEOUT_SECONDS, MAX_BREAKERS
from app.http_sources.response import MAX_TITLE_CHARACTERS, FlagDetector, clean_text, parse_address
from app.http_sources.types import SourceQuery, SourceResult, SourceUnavailable
from app.ids import encode_id
from app.inference.circuit_breaker import CircuitBreaker, EndpointFailed
from app.inference.embedding import Embedder
from app.inference.embedding.model_registry import Embedders
from app.public_addresses import is_public_address
from app.settings.pgvector_sources import PgvectorBinding
from app.source_kinds.types import parse_secret_name

CHECK_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PgvectorSource:
    """Collection of another database, with the fields of the block ``type: pgvector`` of agent platforms."""

    kind: ClassVar[str] = "pgvector"
    default_transformers: ClassVar[Sequence[str]] = ()
    takes_conversation: ClassVar[bool] = False
    timeout_seconds: ClassVar[float] = 5.0

    hostname: str
    user: str
    dbname: str
    collection: str
    embedding_model: str
    embedding_dimensions: int
    port: int = 5432
    password: str | None = None
    sslmode: SslMode = "prefer"
    content_key: str = "content"
    metadata_filter: Mapping[str, Any] = field(default_factory=dict)
    top_k: int = 5
    prompt: Mapping[str, Any] | None = None
    type: Literal["pgvector"] = "pgvector"

    @classmethod
    def from_stored(cls, source: Mapping[str, Any]) -> Self:
        """Create a source from its stored JSON."""
        return cls(**source)


def find_source_embedder(embedders: Embedders, model: str, dimensions: int) -> Embedder | None:
    """Return the embedder of a model that a source names as ``provider/model``, or None.

    Args:
        embedders: Embedders of the process.
        model: Name of the model, with or without its provider.
        dimensions: Number of dimensions.
    """
    names = (model, model.partition("/")[2])
    matches = (item for item in embedders.all if item.identity.model in names)
    return next((item for item in matches if item.identity.dimensions == dimensions), None)


@dataclass(frozen=True)
class PgvectorClient:
    """Client of pgvector sources.

    Attributes:
        bindings: Databases that the operator allows.
        embedders: Embedders of the process.
        detect_flags: Returns the flags of a text, for example signs of prompt injection.
        resolver: Resolves the name of a host.
    """

    bindings: Sequence[PgvectorBinding]
    embedders: Embedders
    detect_flags: FlagDetector
    resolver: HostResolver = resolve_host
    _breakers: LRUCache[tuple[UUID, str], CircuitBreaker] = field(default_factory=lambda: LRUCache(MAX_BREAKERS))

    def authorize(self, source: PgvectorSource, tenant_id: UUID) -> tuple[PgvectorBinding, str]:
        """Return the binding that allows a source of a tenant, and the password.

        Args:
            source: The source.
            tenant_id: Tenant of the knowledge base.

        Raises:
            InvalidInputError: No binding of this tenant allows the source. The message has no values of secrets.
        """
        name = parse_secret_name(source.password, ("body", "source", "password"))
        tenant_names = (EVERY_TENANT, encode_id("ten", tenant_id))
        address = (source.hostname.lower(), source.port, source.dbname)
        matching = [
            binding
            for binding in self.bindings
            if (binding.hostname, binding.port, binding.dbname) == address
            and any(tenant in binding.tenants for tenant in tenant_names)
        ]
        if not matching:
            message = "This service does not allow this tenant to search this database: see CARREL_PGVECTOR_SOURCES."
            raise InvalidInputError(message, loc=("body", "source", "hostname"))
        matching = [item for item in matching if item.collections is None or source.collection in item.collections]
        if not matching:
            message = "This service does not allow this tenant to search this collection."
            raise InvalidInputError(message, loc=("body", "source", "collection"))
        for binding in matching:
            secret = None if name is None else binding.secrets.get(name)
            if secret is not None and secret.user == source.user:
                return binding, secret.value.get_secret_value()
        message = "There is no secret of this name for this user and database. Give its name as ${NAME}."
        raise InvalidInputError(message, loc=("body", "source", "password"))

    def check(self, source: PgvectorSource, tenant_id: UUID) -> None:
        """Check allowlist and embedding model of a source. Raises InvalidInputError."""
        self.authorize(source, tenant_id)
        if find_source_embedder(self.embedders, source.embedding_model, source.embedding_dimensions) is None:
            models = ", ".join(f"{item.identity.model} ({item.identity.dimensions})" for item in self.embedders.all)
            message = f"No embedding model of the service fits. The models, with their dimensions, are: {models}."
            raise InvalidInputError(message, loc=("body", "source", "embedding_model"))

    async def verify(self, source: PgvectorSource, tenant_id: UUID) -> None:
        """Connect to the database, and check the columns of the collection and the dimensions of its vectors.

        Args:
            source: The source.
            tenant_id: Tenant of the knowledge base.

        Raises:
            InvalidInputError: The collection cannot be searched with the embedding model.
            SourceUnavailable: The database cannot be reached, or refuses the login.
        """
        self.check(source, tenant_id)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                database = await self._resolve(source, tenant_id)
                async with connect_read_only(database, timeout_seconds=CHECK_TIMEOUT_SECONDS) as connection:
                    _, dimensions = await find_vector_type(connection, source.collection)
        except CollectionUnusable as exc:
            raise InvalidInputError(str(exc), loc=("body", "source", "collection")) from exc
        except (TimeoutError, *CONNECTION_ERRORS) as exc:
            raise SourceUnavailable("The database of the source cannot be reached, or refuses the login.") from exc
        if dimensions not in (-1, source.embedding_dimensions):
            message = f"The vectors of the collection have {dimensions} dimensions."
            raise InvalidInputError(message, loc=("body", "source", "embedding_dimensions"))

    async def query(
        self,
        source: PgvectorSource,
        source_query: SourceQuery,
        *,
        tenant_id: UUID,
        kb_id: UUID,
        timeout_seconds: float,
    ) -> list[SourceResult]:
        """Return the rows of a collection that are nearest to the vector of a query.

        Args:
            source: The source.
            source_query: Vector of the query and number of results.
            tenant_id: Tenant of the knowledge base.
            kb_id: Knowledge base of the source.
            timeout_seconds: Maximum time; the source has a lower limit.

        Raises:
            SourceUnavailable: The database fails, does not answer in time, or is not allowed.
        """
        limit = min(timeout_seconds, source.timeout_seconds)
        breaker = self._breakers.setdefault(
            (kb_id, f"{source.hostname}:{source.port}"), CircuitBreaker("pgvector_source", SourceUnavailable)
        )
        try:
            async with asyncio.timeout(limit):
                with breaker.call(hang_timeout_seconds=HANG_TIMEOUT_SECONDS):
                    rows = await self._find_rows(source, source_query, tenant_id, limit)
        except TimeoutError as exc:
            raise SourceUnavailable("Its database did not answer in time.") from exc
        except EndpointFailed as exc:
            raise SourceUnavailable(f"Its database failed: {exc}.") from exc
        except CollectionUnusable as exc:
            raise SourceUnavailable(str(exc)) from exc
        except InvalidInputError as exc:
            raise SourceUnavailable("The service no longer allows this database.") from exc
        results = (self._build_result(row) for row in rows)
        return [result for result in results if result is not None]

    async def _find_rows(
        self, source: PgvectorSource, source_query: SourceQuery, tenant_id: UUID, timeout_seconds: float
    ) -> list[CollectionRow]:
        """Return the nearest rows. Raises CollectionUnusable, EndpointFailed, InvalidInputError."""
        try:
            database = await self._resolve(source, tenant_id)
            async with connect_read_only(database, timeout_seconds=timeout_seconds) as connection:
                return await find_nearest(
                    connection,
                    source.collection,
                    source_query.vector or (),
                    content_key=source.content_key,
                    metadata_filter=source.metadata_filter,
                    limit=min(source_query.top_k, source.top_k),
                )
        except TimeoutError:
            raise
        except CONNECTION_ERRORS as exc:
            raise EndpointFailed("no connection, or an error of the query", kind="unreachable") from exc

    async def _resolve(self, source: PgvectorSource, tenant_id: UUID) -> ForeignDatabase:
        """Return the address and login of a source's database, with a checked IP address.

        Raises:
            InvalidInputError: No binding allows the source, or the name leads to a private address.
            OSError: The name of the host is not known.
        """
        binding, password = self.authorize(source, tenant_id)
        try:
            address = str(ip_address(source.hostname))  # the binding names the address itself
        except ValueError:
            addresses = await self.resolver(source.hostname, source.port)
            if not addresses:
                raise OSError("the host's name is not known") from None
            address = addresses[0]
            if not binding.allow_private and not is_public_address(ip_address(address)):
                message = "The host's name does not lead to the public internet."
                raise InvalidInputError(message, loc=("body", "source", "hostname")) from None
        return ForeignDatabase(
            address, source.hostname, source.port, source.dbname, source.user, password, source.sslmode
        )

    def _build_result(self, row: CollectionRow) -> SourceResult | None:
        """Return the result of a row, or None if the metadata has no text under the content key."""
        text = clean_text(row.text)
        if text is None:
            return None
        return SourceResult(
            text=text,
            title=clean_text(row.title, MAX_TITLE_CHARACTERS),
            url=parse_address(row.address, ""),
            score=row.similarity,
            flags=self.detect_flags(text),
        )

"""Clients of all kinds of sources: checks of a source, and queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.http_sources.client import HttpSourceClient
from app.http_sources.types import HttpSource, SourceQuery, SourceResult
from app.http_sources.validation import check_source
from app.source_kinds.agent_search import AgentSearchSource, authorize, query_agent_search
from app.source_kinds.pgvector import PgvectorClient, PgvectorSource

AnySource = HttpSource | AgentSearchSource | PgvectorSource
# Source class by the `type` of the stored JSON. The JSON of HTTP sources has no type.
SOURCE_CLASSES: Mapping[str | None, type[AnySource]] = {
    None: HttpSource,
    "external": AgentSearchSource,
    "pgvector": PgvectorSource,
}
SOURCE_KINDS = frozenset(source_class.kind for source_class in SOURCE_CLASSES.values())


def parse_stored_source(source: Mapping[str, Any]) -> AnySource:
    """Return a source from its stored JSON."""
    return SOURCE_CLASSES[source.get("type")].from_stored(source)


@dataclass(frozen=True, slots=True)
class SourceClients:
    """Clients of all kinds of sources, shared by all searches of a process.

    Attributes:
        http: Client of HTTP sources, which also sends the requests of agent searches.
        pgvector: Client of pgvector collections.
    """

    http: HttpSourceClient
    pgvector: PgvectorClient

    def check(self, source: AnySource, tenant_id: UUID) -> None:
        """Check a source of a tenant without a connection. Raises InvalidInputError with the location of the fault."""
        if isinstance(source, HttpSource):
            check_source(source, self.http.allowlist, tenant_id)
        elif isinstance(source, AgentSearchSource):
            authorize(source, self.http.allowlist, tenant_id)
        else:
            self.pgvector.check(source, tenant_id)

    async def verify(self, source: AnySource, tenant_id: UUID) -> None:
        """Check a new source with a connection, if its kind needs one.

        Raises:
            InvalidInputError: The source cannot be searched.
            SourceUnavailable: The source cannot be reached.
        """
        if isinstance(source, PgvectorSource):
            await self.pgvector.verify(source, tenant_id)

    async def query(
        self, source: AnySource, source_query: SourceQuery, *, tenant_id: UUID, kb_id: UUID, timeout_seconds: float
    ) -> list[SourceResult]:
        """Send a query to a source and return its first results.

        Args:
            source: The source.
            source_query: Query and number of results.
            tenant_id: Tenant of the knowledge base.
            kb_id: Knowledge base of the source.
            timeout_seconds: Maximum time; the source may have a lower limit.

        Raises:
            SourceUnavailable: The source fails, does not answer in time, or is not allowed.
        """
        if isinstance(source, AgentSearchSource):
            return await query_agent_search(
                self.http, source, source_query, tenant_id=tenant_id, kb_id=kb_id, timeout_seconds=timeout_seconds
            )
        if isinstance(source, PgvectorSource):
            return await self.pgvector.query(
                source, source_query, tenant_id=tenant_id, kb_id=kb_id, timeout_seconds=timeout_seconds
            )
        return await self.http.query(
            source, source_query, tenant_id=tenant_id, kb_id=kb_id, timeout_seconds=timeout_seconds
        )

    async def close(self) -> None:
        """Close all connections."""
        await self.http.close()

"""Client of HTTP sources: one request per query, with limits of time and size, without redirects and cookies."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self
from uuid import UUID

import httpx2
from cachetools import LRUCache

from app.errors import InvalidInputError
from app.http_sources.addresses import SourceConnections
from app.http_sources.allowlist import AllowedRequest, SourceAllowlist
from app.http_sources.response import FlagDetector, parse_response
from app.http_sources.templates import render_template
from app.http_sources.types import HttpSource, SourceQuery, SourceResult, SourceUnavailable
from app.inference.circuit_breaker import CircuitBreaker, EndpointFailed
from app.settings.http_sources import HttpSourceSettings

MAX_RESPONSE_BYTES = 2_000_000
# A timeout counts as a failure of the endpoint if the request had at least this many seconds.
HANG_TIMEOUT_SECONDS = 0.5
MAX_QUERY_CHARACTERS = 1000
# Number of circuit breakers of recently used endpoints; an older breaker is dropped and starts closed again.
MAX_BREAKERS = 1000
TRANSIENT_STATUSES = frozenset({408, 425, 429})
# Errors of an idle connection that the server has closed.
STALE_CONNECTION_ERRORS = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
# No compression: a small response must not expand to a large response.
DEFAULT_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Carrel"}


RequestBuilder = Callable[[], tuple[AllowedRequest, httpx2.Request]]
ResponseParser = Callable[[bytes, Sequence[str], FlagDetector], list[SourceResult]]


class HttpSourceClient:
    """Client of HTTP sources, shared by all searches of a process."""

    def __init__(self, allowlist: SourceAllowlist, detect_flags: FlagDetector, connections: SourceConnections) -> None:
        self.allowlist = allowlist
        self._detect_flags = detect_flags
        self._connections = connections
        self._breakers: LRUCache[tuple[UUID, str], CircuitBreaker] = LRUCache(MAX_BREAKERS)

    @classmethod
    def from_settings(cls, settings: HttpSourceSettings, detect_flags: FlagDetector) -> Self:
        """Create a client; blocking, because it reads certificates.

        Args:
            settings: Settings of HTTP sources, with the operator's allowlist.
            detect_flags: Returns the flags of a text, for example signs of prompt injection.
        """
        connections = SourceConnections(httpx2.create_ssl_context(trust_env=False))
        return cls(SourceAllowlist(settings.bindings), detect_flags, connections)

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    async def query(
        self, source: HttpSource, source_query: SourceQuery, *, tenant_id: UUID, kb_id: UUID, timeout_seconds: float
    ) -> list[SourceResult]:
        """Send a query to a source and return the first ``top_k`` results.

        Args:
            source: The source.
            source_query: Query and number of results.
            tenant_id: Tenant of the knowledge base.
            kb_id: Knowledge base of the source.
            timeout_seconds: Maximum time; the source may have a lower limit.

        Raises:
            SourceUnavailable: The endpoint fails, does not answer in time, or is not allowed.
        """

        def build_request() -> tuple[AllowedRequest, httpx2.Request]:
            allowed = self.allowlist.authorize(source, tenant_id)
            return allowed, _build_request(source, source_query, allowed)

        def parse(content: bytes, secrets: Sequence[str], detect_flags: FlagDetector) -> list[SourceResult]:
            return parse_response(
                content, source, max_results=source_query.top_k, detect_flags=detect_flags, secrets=secrets
            )

        return await self.send_request(
            build_request,
            parse,
            breaker_key=(kb_id, source.url),
            timeout_seconds=min(timeout_seconds, source.timeout_seconds),
            source_timeout_seconds=source.timeout_seconds,
        )

    async def send_request(
        self,
        build_request: RequestBuilder,
        parse: ResponseParser,
        *,
        breaker_key: tuple[UUID, str],
        timeout_seconds: float,
        source_timeout_seconds: float,
    ) -> list[SourceResult]:
        """Send one request and return the results of its response.

        Args:
            build_request: Builds the request after the allowlist has allowed it.
            parse: Returns the results of a response body; it runs in a thread.
            breaker_key: Knowledge base and endpoint, which have one circuit breaker.
            timeout_seconds: Maximum time of this request.
            source_timeout_seconds: Maximum time of a request of the source.

        Raises:
            SourceUnavailable: The endpoint fails, does not answer in time, or is not allowed.
        """
        try:
            allowed, request = build_request()
            async with asyncio.timeout(timeout_seconds):
                with self._get_breaker(*breaker_key).call(
                    hang_timeout_seconds=min(HANG_TIMEOUT_SECONDS, source_timeout_seconds)
                ):
                    content = await self._fetch(allowed, request)
                    # Parsing runs in a thread. Its time is limited, but in the event loop it would delay other
                    # searches.
                    return await asyncio.to_thread(parse, content, allowed.secrets, self._detect_flags)
        except TimeoutError as exc:
            raise SourceUnavailable("Its endpoint did not answer in time.") from exc
        except EndpointFailed as exc:
            raise SourceUnavailable(f"Its endpoint failed: {exc}.") from exc
        except InvalidInputError as exc:
            raise SourceUnavailable("The service no longer allows this request to its endpoint.") from exc

    async def _fetch(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """Send a request and return the response body; repeat it once if an idle connection was closed.

        Raises:
            EndpointFailed: The endpoint fails, or its response is not usable.
            SourceUnavailable: The endpoint refuses the request.
            InvalidInputError: The host name resolves to a private address that is not allowed.
        """
        try:
            try:
                return await self._send(allowed, request)
            except STALE_CONNECTION_ERRORS:
                return await self._send(allowed, request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EndpointFailed("no connection", kind="unreachable") from exc

    async def _send(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """Return the response body of one attempt. Raises the errors of ``_fetch``, and httpx2.HTTPError."""
        reply = await self._connections.send(allowed, request)
        try:
            _check_head(reply)
            content = bytearray()
            async for part in reply.aiter_raw():
                content += part
                if len(content) > MAX_RESPONSE_BYTES:
                    raise EndpointFailed("its response is too long")
            return bytes(content)
        finally:
            with suppress(httpx2.HTTPError):
                await reply.aclose()

    def _get_breaker(self, kb_id: UUID, url: str) -> CircuitBreaker:
        """Return the circuit breaker of an endpoint, separate for each knowledge base to keep tenants independent."""
        return self._breakers.setdefault((kb_id, url), CircuitBreaker("http_source", SourceUnavailable))


def _build_request(source: HttpSource, source_query: SourceQuery, allowed: AllowedRequest) -> httpx2.Request:
    """Build the request of a query from the templates of its source."""
    headers = httpx2.Headers(DEFAULT_HEADERS)
    headers.update(allowed.headers)
    query = source_query.query[-MAX_QUERY_CHARACTERS:].encode("utf-8", "replace").decode()
    source_query = SourceQuery(query, source_query.top_k)
    content = None
    if source.body is not None:
        content = json.dumps(render_template(source.body, source_query)).encode()
        headers["Content-Type"] = "application/json"
    params = render_template(source.params, source_query)
    url = allowed.address.copy_with(params=params) if params else allowed.address
    return httpx2.Request(source.method, url, headers=headers, content=content)


def _check_head(reply: httpx2.Response) -> None:
    """Check status and headers of a response.

    Raises:
        EndpointFailed: The fault may be temporary.
        SourceUnavailable: The endpoint refuses the request, also by a redirect.
    """
    status = reply.status_code
    if status >= 500 or status in TRANSIENT_STATUSES:
        raise EndpointFailed(f"HTTP {status}", kind="failed")
    if status != httpx2.codes.OK:
        raise SourceUnavailable(f"Its endpoint refuses: HTTP {status}.")
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise EndpointFailed("its response is not JSON")
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise EndpointFailed("its response is compressed, although the request forbids it")

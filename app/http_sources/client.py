"""Asks HTTP sources: one request for a query, limits in time and size, and nothing followed or kept."""

import asyncio
import json
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
# From so many seconds on giving up counts as a failure of the endpoint.
HANG_TIMEOUT_SECONDS = 0.5
MAX_QUERY_CHARACTERS = 1000
# Of endpoints that were asked last; one that is forgotten begins anew.
MAX_BREAKERS = 1000
TRANSIENT_STATUSES = frozenset({408, 425, 429})
# What a connection that was kept may die of when the server has closed it meanwhile.
STALE_CONNECTION_ERRORS = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
# Not compressed: a small reply must not become a large one.
DEFAULT_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Carrel"}


class HttpSourceClient:
    """One for all searches of a process."""

    def __init__(self, allowlist: SourceAllowlist, detect_flags: FlagDetector, connections: SourceConnections) -> None:
        self.allowlist = allowlist
        self._detect_flags = detect_flags
        self._connections = connections
        self._breakers: LRUCache[tuple[UUID, str], CircuitBreaker] = LRUCache(MAX_BREAKERS)

    @classmethod
    def from_settings(cls, settings: HttpSourceSettings, detect_flags: FlagDetector) -> Self:
        """Open the client; blocking, for it reads certificates. ``detect_flags`` returns the flags of a text."""
        connections = SourceConnections(httpx2.create_ssl_context(trust_env=False))
        return cls(SourceAllowlist(settings.bindings), detect_flags, connections)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def query(
        self, source: HttpSource, source_query: SourceQuery, *, tenant_id: UUID, kb_id: UUID, timeout_seconds: float
    ) -> list[SourceResult]:
        """The first ``top_k`` results, within ``timeout_seconds`` and the source's own limit.

        Raises SourceUnavailable.
        """
        timeout_seconds = min(timeout_seconds, source.timeout_seconds)
        try:
            allowed = self.allowlist.authorize(source, tenant_id)
            request = _build_request(source, source_query, allowed)
            async with asyncio.timeout(timeout_seconds):
                with self._get_breaker(kb_id, source.url).call(
                    hang_timeout_seconds=min(HANG_TIMEOUT_SECONDS, source.timeout_seconds)
                ):
                    content = await self._fetch(allowed, request)
                    # In a thread: what paths cost is bounded, but not by what other searches can wait for.
                    return await asyncio.to_thread(
                        parse_response,
                        content,
                        source,
                        max_results=source_query.top_k,
                        detect_flags=self._detect_flags,
                        secrets=allowed.secrets,
                    )
        except TimeoutError as exc:
            raise SourceUnavailable("Its endpoint gave no answer in time.") from exc
        except EndpointFailed as exc:
            raise SourceUnavailable(f"Its endpoint failed: {exc}.") from exc
        except InvalidInputError as exc:
            raise SourceUnavailable("The service does not allow this request to its endpoint any more.") from exc

    async def _fetch(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """Raises EndpointFailed, SourceUnavailable for a refusal, InvalidInputError for a host that is not public."""
        try:
            try:
                return await self._send(allowed, request)
            except STALE_CONNECTION_ERRORS:
                return await self._send(allowed, request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EndpointFailed("no connection", kind="unreachable") from exc

    async def _send(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """What the endpoint says. Raises as ``_fetch``, and httpx2.HTTPError."""
        reply = await self._connections.send(allowed, request)
        try:
            _check_head(reply)
            content = bytearray()
            async for part in reply.aiter_raw():
                content += part
                if len(content) > MAX_RESPONSE_BYTES:
                    raise EndpointFailed("its answer is too long")
            return bytes(content)
        finally:
            with suppress(httpx2.HTTPError):
                await reply.aclose()

    def _get_breaker(self, kb_id: UUID, url: str) -> CircuitBreaker:
        """Of a knowledge base's own endpoint: what one tenant asks wrongly is not another's failure."""
        return self._breakers.setdefault((kb_id, url), CircuitBreaker("http_source", SourceUnavailable))


def _build_request(source: HttpSource, source_query: SourceQuery, allowed: AllowedRequest) -> httpx2.Request:
    """Fill the source's templates."""
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
    """Raises EndpointFailed for what another try may mend, SourceUnavailable for a refusal; a redirect is one."""
    status = reply.status_code
    if status >= 500 or status in TRANSIENT_STATUSES:
        raise EndpointFailed(f"HTTP {status}", kind="failed")
    if status != httpx2.codes.OK:
        raise SourceUnavailable(f"Its endpoint refuses: HTTP {status}.")
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise EndpointFailed("it is no JSON")
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise EndpointFailed("it is compressed, against what was asked")

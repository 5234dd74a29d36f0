"""Asks HTTP sources: one request for a query, limits in time and size, and nothing followed or kept."""

import asyncio
import json
from contextlib import suppress
from typing import Self
from uuid import UUID

import httpx2
from cachetools import LRUCache

from app.errors import InvalidInput
from app.http_sources.addresses import SourceConnections
from app.http_sources.gate import AllowedRequest, SourceGate
from app.http_sources.reading import Flags, read_reply
from app.http_sources.templates import filled
from app.http_sources.types import Asked, Found, HttpSource, SourceUnavailable
from app.inference.breaker import Breaker, EndpointFailed
from app.settings.http_sources import HttpSourceSettings

MOST_BYTES = 2_000_000
# From so many seconds on giving up counts as a failure of the endpoint.
HANGS_AFTER = 0.5
LONGEST_QUERY = 1000
# Of endpoints that were asked last; one that is forgotten begins anew.
BREAKERS = 1000
PASSING = frozenset({408, 425, 429})
# What a connection that was kept may die of when the server has closed it meanwhile.
STALE = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
# Not compressed: a small reply must not become a large one.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Carrel"}


class HttpSources:
    """One for all searches of a process."""

    def __init__(self, gate: SourceGate, flags: Flags, connections: SourceConnections) -> None:
        self.gate = gate
        self._flags = flags
        self._connections = connections
        self._breakers: LRUCache[tuple[UUID, str], Breaker] = LRUCache(BREAKERS)

    @classmethod
    def open(cls, settings: HttpSourceSettings, flags: Flags) -> Self:
        """Open the client; blocking, for it reads certificates. ``flags`` tell what a text is flagged with."""
        connections = SourceConnections(httpx2.create_ssl_context(trust_env=False))
        return cls(SourceGate(settings.bindings), flags, connections)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def ask(
        self, source: HttpSource, asked: Asked, *, tenant_id: UUID, kb_id: UUID, seconds: float
    ) -> list[Found]:
        """The first ``top_k`` results, within ``seconds`` and the source's own limit. Raises SourceUnavailable."""
        seconds = min(seconds, source.timeout_seconds)
        try:
            allowed = self.gate.allow(source, tenant_id)
            request = _request(source, asked, allowed)
            async with asyncio.timeout(seconds):
                with self._breaker(kb_id, source.url).call(hangs_after=min(HANGS_AFTER, source.timeout_seconds)):
                    content = await self._content(allowed, request)
                    # In a thread: what paths cost is bounded, but not by what other searches can wait for.
                    return await asyncio.to_thread(
                        read_reply, content, source, most=asked.top_k, flags=self._flags, secrets=allowed.secrets
                    )
        except TimeoutError as exc:
            raise SourceUnavailable("Its endpoint gave no answer in time.") from exc
        except EndpointFailed as exc:
            raise SourceUnavailable(f"Its endpoint failed: {exc}.") from exc
        except InvalidInput as exc:
            raise SourceUnavailable("The service does not allow this request to its endpoint any more.") from exc

    async def _content(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """Raises EndpointFailed, SourceUnavailable for a refusal, InvalidInput for a host that is not public."""
        try:
            try:
                return await self._send(allowed, request)
            except STALE:
                return await self._send(allowed, request)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EndpointFailed("no connection", kind="unreachable") from exc

    async def _send(self, allowed: AllowedRequest, request: httpx2.Request) -> bytes:
        """What the endpoint says. Raises as ``_content``, and httpx2.HTTPError."""
        reply = await self._connections.send(allowed, request)
        try:
            _check_head(reply)
            content = bytearray()
            async for part in reply.aiter_raw():
                content += part
                if len(content) > MOST_BYTES:
                    raise EndpointFailed("its answer is too long")
            return bytes(content)
        finally:
            with suppress(httpx2.HTTPError):
                await reply.aclose()

    def _breaker(self, kb_id: UUID, url: str) -> Breaker:
        """Of a knowledge base's own endpoint: what one tenant asks wrongly is not another's failure."""
        return self._breakers.setdefault((kb_id, url), Breaker("http_source", SourceUnavailable))


def _request(source: HttpSource, asked: Asked, allowed: AllowedRequest) -> httpx2.Request:
    """Fill the source's templates."""
    headers = httpx2.Headers(HEADERS)
    headers.update(allowed.headers)
    query = asked.query[-LONGEST_QUERY:].encode("utf-8", "replace").decode()
    asked = Asked(query, asked.top_k)
    content = None
    if source.body is not None:
        content = json.dumps(filled(source.body, asked)).encode()
        headers["Content-Type"] = "application/json"
    params = filled(source.params, asked)
    url = allowed.address.copy_with(params=params) if params else allowed.address
    return httpx2.Request(source.method, url, headers=headers, content=content)


def _check_head(reply: httpx2.Response) -> None:
    """Raises EndpointFailed for what another try may mend, SourceUnavailable for a refusal; a redirect is one."""
    status = reply.status_code
    if status >= 500 or status in PASSING:
        raise EndpointFailed(f"HTTP {status}", kind="failed")
    if status != httpx2.codes.OK:
        raise SourceUnavailable(f"Its endpoint refuses: HTTP {status}.")
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise EndpointFailed("it is no JSON")
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        raise EndpointFailed("it is compressed, against what was asked")

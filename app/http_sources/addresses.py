"""Connections to HTTP sources: a host name is resolved and checked, and the connection goes to the checked address."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

import httpx2

from app.errors import InvalidInputError
from app.http_sources.allowlist import AllowedRequest
from app.public_addresses import IpAddress, is_public_address

HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]
# Time until a host name is resolved again.
ADDRESS_CACHE_TTL_SECONDS = 30.0
MAX_ADDRESSES = 3
MAX_IDLE_CONNECTIONS = 5


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host name from the resolver of the system. Raises OSError."""
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in results))


@dataclass
class SourceConnections:
    """Open connections of a process to HTTP sources.

    Each host has a separate transport with a connection pool. A connection for one host must not carry a request for
    another host at the same IP address. The transport uses no cookies, no redirects, no netrc file and no proxies of
    the environment.
    """

    certificates: ssl.SSLContext
    resolver: HostResolver = resolve_host
    _transports: dict[str, httpx2.AsyncHTTPTransport] = field(default_factory=dict)
    _address_cache: dict[tuple[str, int], tuple[float, Sequence[IpAddress]]] = field(default_factory=dict)

    async def send(self, allowed: AllowedRequest, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first IP address of its host that accepts a connection, and return the response.

        Args:
            allowed: Permission of the allowlist: the URL, and whether private IP addresses are allowed.
            request: The request.

        Raises:
            InvalidInputError: The host name resolves to a private address, and the allowlist forbids private addresses.
            httpx2.HTTPError: No address accepts a connection, or the connection broke.
        """
        addresses = await self._resolve_addresses(allowed)
        transport = self._get_transport(f"{request.url.scheme}://{request.url.netloc.decode()}")
        for address in addresses[:-1]:
            try:
                return await transport.handle_async_request(_pin_address(request, address))
            except httpx2.ConnectError:
                continue
        return await transport.handle_async_request(_pin_address(request, addresses[-1]))

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    async def _resolve_addresses(self, allowed: AllowedRequest) -> Sequence[IpAddress]:
        host = allowed.address.raw_host.decode()
        try:
            return [ip_address(host)]  # the URL has an IP address, which the allowlist names itself
        except ValueError:
            pass
        port = allowed.address.port or (443 if allowed.address.scheme == "https" else 80)
        expires_at, addresses = self._address_cache.get((host, port), (0.0, []))
        if expires_at < time.monotonic():
            try:
                addresses = [ip_address(text) for text in await self.resolver(host, port)][:MAX_ADDRESSES]
            except (OSError, UnicodeError, ValueError) as exc:
                raise httpx2.ConnectError("the host's name is not known") from exc
            if not addresses:
                raise httpx2.ConnectError("the host's name is not known")
            self._address_cache[host, port] = (time.monotonic() + ADDRESS_CACHE_TTL_SECONDS, addresses)
        if not allowed.allows_private and not all(is_public_address(text) for text in addresses):
            raise InvalidInputError("The host's name does not lead to the public internet.")
        return addresses

    def _get_transport(self, host: str) -> httpx2.AsyncHTTPTransport:
        if host not in self._transports:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS)
            self._transports[host] = httpx2.AsyncHTTPTransport(verify=self.certificates, trust_env=False, limits=limits)
        return self._transports[host]


def _pin_address(request: httpx2.Request, address: IpAddress) -> httpx2.Request:
    """Return the request for an IP address. The Host header and the certificate check keep the host name."""
    extensions = {"sni_hostname": request.url.raw_host.decode()} if request.url.scheme == "https" else {}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        content=request.content,
        extensions=extensions,
    )

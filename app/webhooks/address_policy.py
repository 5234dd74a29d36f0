"""Policy of webhook addresses: the public internet, and the private networks that the operator allows.

This module resolves the host name, and the sender connects to the checked IP address. A name that resolves to another
address later (DNS rebinding) has no effect.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import httpx2

from app.errors import AppError
from app.public_addresses import IpAddress, IpNetwork, is_public_address
from app.webhooks.types import WebhookFailureReason

AddressResolver = Callable[[str, int], Awaitable[Sequence[str]]]

RESOLVE_TIMEOUT_SECONDS = 5.0
# Only visible characters, and none that programs interpret in different ways.
_VISIBLE_URL = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_AMBIGUOUS_CHARACTERS = re.compile(r"[\\#@<>\"^`|{}\s]")


class AddressNotAllowed(AppError):
    """The URL of a webhook is not allowed."""

    def __init__(self, message: str, reason: WebhookFailureReason) -> None:
        self.reason = reason
        super().__init__(message)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host name from the resolver of the system. Raises OSError."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """Checked URL with the IP addresses of its host, which the sender may connect to."""

    url: httpx2.URL
    addresses: Sequence[IpAddress]


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Policy of the addresses that webhooks may reach. Webhooks may reach ``allowed_networks`` with plain HTTP too."""

    allowed_networks: Sequence[IpNetwork] = ()
    resolve: AddressResolver = resolve_host

    async def check(self, url: str) -> WebhookTarget:
        """Resolve and check a URL.

        Args:
            url: URL of a webhook.

        Returns:
            The URL and the checked addresses of its host.

        Raises:
            AddressNotAllowed: The URL is not valid, its host is unknown, or one of its addresses is not allowed.
        """
        parsed = _parse_url(url)
        host = parsed.raw_host.decode()
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
                resolved = await self.resolve(host, parsed.port or (443 if parsed.scheme == "https" else 80))
            addresses = [ip_address(address) for address in resolved]
        except (OSError, UnicodeError, ValueError) as exc:  # TimeoutError is an OSError
            raise AddressNotAllowed("The host of the URL is not known.", WebhookFailureReason.UNRESOLVED) from exc
        if not addresses:
            raise AddressNotAllowed("The host of the URL is not known.", WebhookFailureReason.UNRESOLVED)
        allowed = [address for address in addresses if any(address in network for network in self.allowed_networks)]
        if any(address not in allowed and not is_public_address(address) for address in addresses):
            raise AddressNotAllowed(
                "The URL does not lead to the public internet.", WebhookFailureReason.ADDRESS_REFUSED
            )
        if parsed.scheme != "https" and len(allowed) < len(addresses):
            raise AddressNotAllowed("The URL must begin with https://.", WebhookFailureReason.ADDRESS_REFUSED)
        return WebhookTarget(parsed, addresses)


def _parse_url(url: str) -> httpx2.URL:
    """Parse a URL strictly. Raises AddressNotAllowed."""
    message = "Use an https URL without user and fragment."
    if not _VISIBLE_URL.fullmatch(url) or _AMBIGUOUS_CHARACTERS.search(url):
        raise AddressNotAllowed(message, WebhookFailureReason.ADDRESS_REFUSED)
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise AddressNotAllowed(message, WebhookFailureReason.ADDRESS_REFUSED) from None
    is_port_valid = parsed.port is None or 0 < parsed.port < 65536
    if parsed.scheme not in ("http", "https") or not parsed.host or not is_port_valid:
        raise AddressNotAllowed(message, WebhookFailureReason.ADDRESS_REFUSED)
    return parsed

"""Where webhooks may lead: addresses of the public internet, and networks that the operator allows.

A name is looked up here, and what is connected to is the very address that was checked: a name that leads elsewhere a
moment later (DNS rebinding) leads nowhere.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import httpx2

from app.errors import AppError
from app.public_addresses import Address, Network, is_public
from app.webhooks.types import Reason

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

RESOLVE_SECONDS = 5.0
# Visible characters alone, and none that programs read differently.
_PLAIN = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_ODD = re.compile(r"[\\#@<>\"^`|{}\s]")


class AddressRefused(AppError):
    """A webhook may not lead there."""

    def __init__(self, message: str, reason: Reason) -> None:
        self.reason = reason
        super().__init__(message)


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system has them. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True, slots=True)
class Target:
    """An address that was checked: what is asked for, and which of its host's addresses may be connected to."""

    url: httpx2.URL
    addresses: Sequence[Address]


@dataclass(frozen=True, slots=True)
class AddressGate:
    """``allowed`` are networks that are not public, and may be reached all the same, over plain HTTP too."""

    allowed: Sequence[Network] = ()
    resolve: Resolve = look_up

    async def check(self, url: str) -> Target:
        """Raises AddressRefused where any of its addresses may not be reached."""
        parsed = _parsed(url)
        host = parsed.raw_host.decode()
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await self.resolve(host, parsed.port or (443 if parsed.scheme == "https" else 80))
            addresses = [ip_address(one) for one in found]
        except (OSError, UnicodeError, ValueError) as exc:  # a timeout is an OSError
            raise AddressRefused("The host of the URL is not known.", Reason.UNRESOLVED) from exc
        if not addresses:
            raise AddressRefused("The host of the URL is not known.", Reason.UNRESOLVED)
        private = [one for one in addresses if any(one in network for network in self.allowed)]
        if any(one not in private and not is_public(one) for one in addresses):
            raise AddressRefused("The URL does not lead to the public internet.", Reason.ADDRESS_REFUSED)
        if parsed.scheme != "https" and len(private) < len(addresses):
            raise AddressRefused("The URL must begin with https://.", Reason.ADDRESS_REFUSED)
        return Target(parsed, addresses)


def _parsed(url: str) -> httpx2.URL:
    """Raises AddressRefused."""
    message = "It is an https URL without user and fragment."
    if not _PLAIN.fullmatch(url) or _ODD.search(url):
        raise AddressRefused(message, Reason.ADDRESS_REFUSED)
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise AddressRefused(message, Reason.ADDRESS_REFUSED) from None
    port_fits = parsed.port is None or 0 < parsed.port < 65536
    if parsed.scheme not in ("http", "https") or not parsed.host or not port_fits:
        raise AddressRefused(message, Reason.ADDRESS_REFUSED)
    return parsed

"""Limits on connections of the API process: for all clients (from the file descriptor limit) and for one IP address."""

import os
import resource
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal, Protocol

from app.logging import get_logger

logger = get_logger(__name__)

# Maximum for the soft limit of descriptors: each used descriptor needs memory of the kernel.
MAX_DESCRIPTORS = 65_536
# Descriptors that connections never use. They remain for the database, the object store, models, files and pipes.
MIN_RESERVE, RESERVED_SHARE = 128, 4
# New connections in the kernel's queue. The event loop accepts all of them at once, so they need descriptors too.
MAX_BACKLOG, BACKLOG_SHARE = 2048, 8
# At the limit a sixteenth of the connections is closed together, so that the search for idle ones is rare.
CLOSING_SHARE = 16
# Order in which connections are closed: first those without any complete request, then waiting ones.
Idleness = Literal["unused", "waiting", "sending", "busy"]
_ORDER: tuple[Idleness, ...] = ("unused", "waiting", "sending")


class Connection(Protocol):
    """Interface that the limiter needs of the connection of a client."""

    @property
    def idleness(self) -> Idleness:
        """State of the client: unused, waiting after a response, sending a body, or busy (it waits for a response)."""

    @property
    def idle_since(self) -> float:
        """Time when the current state began, in seconds of the event loop's clock."""

    def drop(self) -> None:
        """Close the connection immediately."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors to the hard limit, at most 65,536, and return the usable number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError) as exc:  # some systems enforce a lower limit than they report
            logger.warning("descriptors.raise_failed", soft=soft, hard=hard, error=exc)
            return soft
        return target
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else min(soft, MAX_DESCRIPTORS)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Maximum number of accepted connections, and of connections in the kernel's queue (backlog)."""

    connections: int
    backlog: int

    @classmethod
    def from_descriptors(cls, descriptors: int) -> "Capacity":
        """Divide the descriptors of this process between connections, backlog and reserve."""
        backlog = max(16, min(MAX_BACKLOG, descriptors // BACKLOG_SHARE))
        reserve = max(MIN_RESERVE, descriptors // RESERVED_SHARE)
        return cls(max(16, descriptors - reserve - backlog), backlog)


class TrustedProxies:
    """Addresses of proxies, which forward requests of many clients.

    The default is the environment variable FORWARDED_ALLOW_IPS, which uvicorn reads too.
    """

    def __init__(self, addresses: str | Iterable[str] | None) -> None:
        if addresses is None:
            addresses = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
        names = [name.strip() for name in (addresses.split(",") if isinstance(addresses, str) else addresses)]
        self._all = "*" in names
        self._networks = [network for name in names for network in _parse_network(name)]

    def __contains__(self, address: str) -> bool:
        if self._all:
            return True
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:  # a Unix socket of this machine
            return True
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self._networks)


def _parse_network(name: str) -> Iterator[IPv4Network | IPv6Network]:
    try:
        yield ip_network(name)
    except ValueError:  # the path of a Unix socket, or a host name
        return


@dataclass(slots=True)
class ConnectionLimiter:
    """Limiter of a server's connections. At a limit it closes the oldest idle connections.

    ``max_connections`` limits all addresses together. ``max_per_address`` limits one address, except those of
    ``proxies``, which forward the requests of many clients.
    """

    max_connections: int
    max_per_address: int
    proxies: TrustedProxies
    _by_address: dict[str, set[Connection]] = field(default_factory=dict)
    _count: int = 0
    _logged_at: float = float("-inf")

    def add(self, address: str, connection: Connection) -> bool:
        """Register a new connection.

        Args:
            address: IP address of the client.
            connection: The new connection.

        Returns:
            False if a limit is reached and no other connection is idle; the caller must close the new connection.
        """
        own = self._by_address.setdefault(address, set())
        if len(own) >= self.max_per_address and address not in self.proxies and not self._close(own, 1):
            self._remove_if_empty(address)
            self._log_throttled("connection.refused", reason="address", connections=len(own))
            return False
        if self._count >= self.max_connections and not self._close_idle():
            self._remove_if_empty(address)
            self._log_throttled("connection.refused", reason="descriptors", connections=self._count)
            return False
        self._by_address.setdefault(address, set()).add(connection)
        self._count += 1
        return True

    def discard(self, address: str, connection: Connection) -> None:
        """Remove a connection that has ended."""
        own = self._by_address.get(address)
        if own is not None and connection in own:
            own.remove(connection)
            self._count -= 1
            self._remove_if_empty(address)

    def _close_idle(self) -> bool:
        """Close idle connections of one address: the address with the most connections among those with an idle
        connection.
        """
        count = max(1, self.max_connections // CLOSING_SHARE)
        for address in sorted(self._by_address, key=lambda item: len(self._by_address[item]), reverse=True):
            closed = self._close(self._by_address[address], count)
            self._remove_if_empty(address)
            if closed:
                self._log_throttled("connections.closed", count=closed, connections=self._count)
                return True
        return False

    def _close(self, own: set[Connection], count: int) -> int:
        """Close up to ``count`` connections: first unused, then waiting, then sending ones. Return the number."""
        candidates = [
            (_ORDER.index(kind), connection.idle_since, connection)
            for connection in own
            if (kind := connection.idleness) != "busy"
        ]
        chosen = sorted(candidates, key=lambda item: item[:2])[:count]
        for _, _, connection in chosen:
            own.remove(connection)
            self._count -= 1
            connection.drop()
        return len(chosen)

    def _log_throttled(self, event: str, **fields: object) -> None:
        """Log an event, at most once per second."""
        now = time.monotonic()
        if now - self._logged_at >= 1:
            self._logged_at = now
            logger.warning(event, **fields)

    def _remove_if_empty(self, address: str) -> None:
        if not self._by_address.get(address, True):
            del self._by_address[address]

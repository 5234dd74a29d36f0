"""Limits on connections of the API process: in total, by its file descriptors, and for one address."""

import os
import resource
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Literal, Protocol

from app.logging import get_logger

logger = get_logger(__name__)

# What the soft limit of descriptors is raised to at most: each costs memory of the kernel when it is used.
MAX_DESCRIPTORS = 65_536
# Descriptors that connections never take: the database, the object store, models, files and pipes have them.
MIN_RESERVE, RESERVED_SHARE = 128, 4
# New connections that the kernel holds. The loop accepts all of them at once, so they need descriptors as well.
MAX_BACKLOG, BACKLOG_SHARE = 2048, 8
# If connections fill their limit, this share of them is closed at once: the search for them is then rare.
CLOSING_SHARE = 16
# The order in which connections are closed: those without any complete request first, then waiting ones.
Idleness = Literal["unused", "waiting", "sending", "busy"]
_ORDER: tuple[Idleness, ...] = ("unused", "waiting", "sending")


class Connection(Protocol):
    """A connection of a caller, as far as this module knows it."""

    @property
    def idleness(self) -> Idleness:
        """The state of its client: unused, waiting after an answer, sending a body, or waiting for an answer."""

    @property
    def idle_since(self) -> float:
        """When that began."""

    def drop(self) -> None:
        """Close it at once."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors as far as the hard limit allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (OSError, ValueError) as exc:  # some systems have a lower limit than the one that they report
            logger.warning("descriptors.raise_failed", soft=soft, hard=hard, error=exc)
            return soft
        return target
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else min(soft, MAX_DESCRIPTORS)


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many connections there may be, and how many the kernel may hold before they are accepted."""

    connections: int
    backlog: int

    @classmethod
    def from_descriptors(cls, descriptors: int) -> "Capacity":
        """Divide the descriptors of this process."""
        backlog = max(16, min(MAX_BACKLOG, descriptors // BACKLOG_SHARE))
        reserve = max(MIN_RESERVE, descriptors // RESERVED_SHARE)
        return cls(max(16, descriptors - reserve - backlog), backlog)


class TrustedProxies:
    """Addresses that speak for many callers, as uvicorn reads them from FORWARDED_ALLOW_IPS."""

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
        except ValueError:  # a socket of this machine
            return True
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return any(ip in network for network in self._networks)


def _parse_network(name: str) -> Iterator[IPv4Network | IPv6Network]:
    try:
        yield ip_network(name)
    except ValueError:  # a path of a socket, or a name
        return


@dataclass(slots=True)
class ConnectionLimiter:
    """All connections of a server by address; the oldest idle ones make room if there are too many.

    Args:
        most: of all addresses together.
        per_address: of one address that is no trusted proxy.
        proxies: their connections are other people's, so they have no limit of their own.
    """

    max_connections: int
    max_per_address: int
    proxies: TrustedProxies
    _by_address: dict[str, set[Connection]] = field(default_factory=dict)
    _count: int = 0
    _logged_at: float = float("-inf")

    def add(self, address: str, connection: Connection) -> bool:
        """Take in a new connection; False if it has to be closed because no other one can be."""
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
        """Forget a connection that has ended."""
        own = self._by_address.get(address)
        if own is not None and connection in own:
            own.remove(connection)
            self._count -= 1
            self._remove_if_empty(address)

    def _close_idle(self) -> bool:
        """Close idle connections of the address with most; if it has none, of the next one."""
        count = max(1, self.max_connections // CLOSING_SHARE)
        for address in sorted(self._by_address, key=lambda item: len(self._by_address[item]), reverse=True):
            closed = self._close(self._by_address[address], count)
            self._remove_if_empty(address)
            if closed:
                self._log_throttled("connections.closed", count=closed, connections=self._count)
                return True
        return False

    def _close(self, own: set[Connection], count: int) -> int:
        """Close up to ``count`` connections, unused ones first, the oldest first; return their number."""
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
        """Log what happens, once a second at most."""
        now = time.monotonic()
        if now - self._logged_at >= 1:
            self._logged_at = now
            logger.warning(event, **fields)

    def _remove_if_empty(self, address: str) -> None:
        if not self._by_address.get(address, True):
            del self._by_address[address]

"""Failed sign-ins by address: after some in a minute the next ones are told to wait."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address

from app.tenants.types import TooManyFailures

WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000


@dataclass(slots=True)
class Window:
    """What failed since the first one."""

    ends: float
    failures: int = 0


@dataclass(slots=True)
class FailedSignIns:
    """Counts in this process, and only what failed: a valid credential is taken from any address at any time."""

    most: int
    most_addresses: int = MOST_ADDRESSES
    clock: Callable[[], float] = time.monotonic
    _windows: OrderedDict[str, Window] = field(default_factory=OrderedDict)

    def count(self, address: str) -> None:
        """One more from this address. Raises TooManyFailures, until a minute after the first."""
        now, origin = self.clock(), _origin(address)
        window = self._windows.get(origin)
        if window is None or window.ends <= now:
            window = self._windows[origin] = Window(now + WINDOW_SECONDS)
        self._windows.move_to_end(origin)
        if len(self._windows) > self.most_addresses:
            self._windows.popitem(last=False)
        window.failures += 1
        if window.failures > self.most:
            raise TooManyFailures(retry_after=window.ends - now)


def _origin(address: str) -> str:
    """Whoever has one IPv6 address has 2^64 of them."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:64]
    return str(IPv6Network((int(parsed), 64), strict=False)) if isinstance(parsed, IPv6Address) else address

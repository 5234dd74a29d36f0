"""Limit of failed sign-ins by address, within one minute."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address

from app.tenants.types import TooManyFailedSignIns

WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000


@dataclass(slots=True)
class FailureWindow:
    """Failures of one address since its first failure."""

    ends_at: float
    failures: int = 0


@dataclass(slots=True)
class SignInThrottle:
    """Throttle of failed sign-ins in this process. A valid credential is accepted from every address at any time."""

    max_failures: int
    max_addresses: int = MAX_ADDRESSES
    clock: Callable[[], float] = time.monotonic
    _windows: OrderedDict[str, FailureWindow] = field(default_factory=OrderedDict)

    def record_failure(self, address: str) -> None:
        """Count a failure of an address.

        Args:
            address: The address. All addresses of an IPv6 /64 network count together.

        Raises:
            TooManyFailedSignIns: The address has too many failures. The block ends one minute after the first failure.
        """
        now, source = self.clock(), _normalize_address(address)
        window = self._windows.get(source)
        if window is None or window.ends_at <= now:
            window = self._windows[source] = FailureWindow(now + WINDOW_SECONDS)
        self._windows.move_to_end(source)
        if len(self._windows) > self.max_addresses:
            self._windows.popitem(last=False)
        window.failures += 1
        if window.failures > self.max_failures:
            raise TooManyFailedSignIns(retry_after=window.ends_at - now)


def _normalize_address(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address, because one owner has the whole network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:64]
    return str(IPv6Network((int(parsed), 64), strict=False)) if isinstance(parsed, IPv6Address) else address

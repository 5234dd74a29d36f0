"""Failed sign-ins: counted by address for a minute, in bounded memory."""

import pytest

from app.tenants.auth.sign_in_throttle import WINDOW_SECONDS, SignInThrottle
from app.tenants.types import TooManyFailedSignIns
from harness.manual_clock import ManualClock


def refused(failures: SignInThrottle, address: str) -> float | None:
    """Record a failed sign-in; return the seconds to wait if there were too many."""
    try:
        failures.record_failure(address)
    except TooManyFailedSignIns as error:
        return error.retry_after
    return None


def test_throttle_address_waits_until_end_of_minute() -> None:
    clock = ManualClock()
    failures = SignInThrottle(3, clock=clock)
    assert [refused(failures, "192.0.2.1") for _ in range(3)] == [None] * 3
    clock.now += 20
    assert refused(failures, "192.0.2.1") == WINDOW_SECONDS - 20
    clock.now += WINDOW_SECONDS - 20.5
    assert refused(failures, "192.0.2.1") == 0.5  # a further attempt makes the wait no longer
    clock.now += 0.5
    assert [refused(failures, "192.0.2.1") for _ in range(4)] == [None, None, None, WINDOW_SECONDS]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("a socket", "another", False),
        ("x" * 100, "x" * 200, True),
        ("", "", True),
    ],
)
def test_throttle_counts_addresses_of_one_network_together(first: str, second: str, same: bool) -> None:
    failures = SignInThrottle(1, clock=ManualClock())
    assert refused(failures, first) is None
    assert (refused(failures, second) is not None) is same


def test_throttle_forgets_oldest_addresses_first() -> None:
    failures = SignInThrottle(1, max_addresses=2, clock=ManualClock())
    for address in ("a", "b"):
        assert refused(failures, address) is None
    assert refused(failures, "a") is not None
    assert refused(failures, "c") is None  # b is forgotten
    assert refused(failures, "a") is not None
    assert refused(failures, "b") is None

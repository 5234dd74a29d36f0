"""Connection limit by file descriptors: the caller with most connections loses one first."""

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpx2
import pytest
import uvloop

from app.cli.connection_limits import Capacity, ConnectionLimiter, Idleness, TrustedProxies, raise_descriptor_limit
from app.cli.slow_client_protection import HttpServer
from app.settings import load_settings
from harness.running_service import no_signals
from tests.cli.test_slow_clients import RecordingApplication

HALF = b"POST /length HTTP/1.1\r\nHost: "


@dataclass(eq=False)
class FakeConnection:
    """Connection that records its closing."""

    idleness: Idleness = "unused"
    idle_since: float = 0.0
    dropped: list[bool] = field(default_factory=list)

    def drop(self) -> None:
        self.dropped.append(True)


def connections(most: int, per_address: int = 1000, proxies: str = "10.0.0.1") -> ConnectionLimiter:
    return ConnectionLimiter(most, per_address, TrustedProxies(proxies))


def test_capacity_leaves_a_reserve() -> None:
    assert Capacity.from_descriptors(1024) == Capacity(640, 128)
    large = Capacity.from_descriptors(65_536)
    assert (large.backlog, large.connections) == (2048, 65_536 - 16_384 - 2048)
    assert Capacity.from_descriptors(64).connections == 16


def test_soft_limit_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
        found = raise_descriptor_limit()
        assert found == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("listed", "address", "trusted"),
    [
        (None, "127.0.0.1", True), (None, "::ffff:127.0.0.1", True), (None, "192.0.2.7", False),
        ("10.0.0.0/8, 2001:db8::1", "10.1.2.3", True), ("10.0.0.0/8, 2001:db8::1", "2001:db8::1", True),
        ("10.0.0.0/8", "11.0.0.1", False), ("*", "192.0.2.7", True), ("proxy.sock", "192.0.2.7", False),
    ],
)  # fmt: skip
def test_trusted_proxies_are_read_as_uvicorn_reads_them(listed: str | None, address: str, trusted: bool) -> None:
    assert (address in TrustedProxies(listed)) == trusted


def test_oldest_unused_connections_of_the_address_with_most_are_closed() -> None:
    table = connections(16)
    many = [FakeConnection(idle_since=float(number)) for number in range(14)]
    quiet, busy = FakeConnection("waiting"), FakeConnection("busy")
    for one in many:
        assert table.add("192.0.2.1", one)
    assert table.add("192.0.2.2", quiet)
    assert table.add("192.0.2.2", busy)
    newest = FakeConnection(idle_since=99.0)
    assert table.add("192.0.2.3", newest)
    assert [bool(one.dropped) for one in many] == [True] + [False] * 13
    assert [one.dropped for one in (quiet, busy, newest)] == [[], [], []]


def test_busy_connections_are_never_closed_and_the_next_address_is_looked_at() -> None:
    table = connections(4)
    busy = [FakeConnection("busy") for _ in range(3)]
    for one in busy:
        table.add("192.0.2.1", one)
    sending = FakeConnection("sending")
    table.add("192.0.2.2", sending)
    assert table.add("192.0.2.3", FakeConnection("busy"))
    assert sending.dropped
    assert not table.add("192.0.2.3", FakeConnection("busy"))
    table.discard("192.0.2.1", busy[0])
    table.discard("192.0.2.1", busy[0])
    assert table.add("192.0.2.3", FakeConnection("busy"))


def test_address_over_its_limit_loses_its_own_connections() -> None:
    table = connections(100, per_address=2)
    first, second, third = (FakeConnection(idle_since=float(number)) for number in range(3))
    other = FakeConnection()
    for address, one in (("192.0.2.2", other), ("192.0.2.1", first), ("192.0.2.1", second), ("192.0.2.1", third)):
        assert table.add(address, one)
    assert (bool(first.dropped), bool(second.dropped), bool(other.dropped)) == (True, False, False)
    second.idleness = third.idleness = "busy"
    assert not table.add("192.0.2.1", FakeConnection())
    for _ in range(5):
        assert table.add("10.0.0.1", FakeConnection("busy"))


@contextmanager
def running(descriptors: int, **server: str) -> Iterator[RecordingApplication]:
    """Run a server with this number of file descriptors."""
    world = RecordingApplication()
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)  # clients wait here until the server has started
    world.port = listening.getsockname()[1]
    made = HttpServer(world, load_settings(server=server).server, descriptors=descriptors)
    made.capture_signals = no_signals  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: uvloop.run(made.serve([listening])))
    thread.start()
    try:
        yield world
    finally:
        made.should_exit = True
        thread.join(30)
        listening.close()


def test_half_open_connections_lock_out_no_client() -> None:
    """The clients open more connections than descriptors, and open them again after they are closed."""
    most = Capacity.from_descriptors(512).connections
    with running(512) as world, ExitStack() as open_:
        kept = open_.enter_context(httpx2.Client(base_url=f"http://127.0.0.1:{world.port}", timeout=30))
        for number in range(3 * most):
            one = open_.enter_context(socket.create_connection(("127.0.0.1", world.port), timeout=30))
            one.sendall(HALF)
            if number % 50 == 0:
                assert kept.post("/length", content=b"12345").text.startswith("5 ")
        for _ in range(20):
            with httpx2.Client(base_url=f"http://127.0.0.1:{world.port}", timeout=30) as fresh:
                assert fresh.post("/length", content=b"123").text.startswith("3 ")


def test_address_with_too_many_busy_connections_gets_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    with running(4096, CARREL_MAX_CONNECTIONS_PER_ADDRESS="2") as world, ExitStack() as open_:
        for _ in range(2):
            one = open_.enter_context(socket.create_connection(("127.0.0.1", world.port), timeout=30))
            one.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(10)
        third = open_.enter_context(socket.create_connection(("127.0.0.1", world.port), timeout=30))
        assert third.recv(1000).startswith(b"HTTP/1.1 429 ")

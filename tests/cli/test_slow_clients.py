"""Slow and hostile clients over raw sockets: limits of sizes and durations."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
import uvloop
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.cli.slow_client_protection import MAX_HEADER_BYTES, MAX_HEADERS, MAX_URL_BYTES, MIN_BODY_BYTES, HttpServer
from app.settings import load_settings
from harness.running_service import no_signals

PIECE = b"x" * 65_536
GUARD_SECONDS = 60
# The time limit of clients: long enough for fair clients on a busy machine.
CLIENT_TIMEOUT_SECONDS = 3
THINKING_SECONDS = 1.5 * CLIENT_TIMEOUT_SECONDS
FAIR_PIECES = 24
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
CLOSE_OR_H2C = H2C.replace(b"Upgrade, ", b"close, Upgrade, ")
CHUNKED = b"POST /%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class RecordingApplication:
    """Small application that records the end of its requests."""

    port: int = 0
    ended: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        request = Request(scope, receive)
        try:
            response = await self.answer(request)
            await response(scope, receive, send)
        except ClientDisconnect:
            self.ended.append("disconnected")

    async def answer(self, request: Request) -> Response:
        match request.url.path:
            case "/length":
                length = len(await request.body())
                return PlainTextResponse(f"{length} {'x-late' in request.headers}")
            case "/endless":
                return StreamingResponse(self.endless())
            case "/fair":
                return Response(PIECE * 64)
            case "/thinking":
                await asyncio.sleep(THINKING_SECONDS)
            case "/quiet":
                return StreamingResponse(self.quiet())
        return PlainTextResponse("hello")

    async def endless(self) -> Iterator[bytes]:  # type: ignore[misc]  # an asynchronous one
        try:
            while True:
                yield PIECE
                await asyncio.sleep(0)
        finally:
            self.ended.append("endless")

    async def quiet(self) -> Iterator[bytes]:  # type: ignore[misc]  # the same
        yield b"begun "
        await asyncio.sleep(THINKING_SECONDS)
        yield b"done"

    @contextmanager
    def client(self) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=GUARD_SECONDS) as made:
            yield made


@pytest.fixture(scope="module")
def world() -> Iterator[RecordingApplication]:
    """Server whose clients have a limit of some seconds."""
    world = RecordingApplication()
    settings = load_settings(
        server={"CARREL_CLIENT_TIMEOUT_SECONDS": CLIENT_TIMEOUT_SECONDS, "CARREL_KEEP_ALIVE_TIMEOUT_SECONDS": 1}
    ).server
    server = HttpServer(world, settings)
    server.capture_signals = no_signals  # type: ignore[method-assign]  # signals belong to the main thread
    with socket.create_server(("127.0.0.1", 0)) as listening:
        world.port = listening.getsockname()[1]
        thread = threading.Thread(target=uvloop.run, args=(server.serve([listening]),))
        thread.start()
        yield world
        server.should_exit = True
        thread.join(GUARD_SECONDS)


def rest(client: socket.socket) -> bytes:
    """Return everything until the server closes. The server may close before it has read all that was sent."""
    found = bytearray()
    with suppress(ConnectionResetError):
        while piece := client.recv(65_536):
            found += piece
    return bytes(found)


def answer_to(world: RecordingApplication, request: bytes) -> bytes:
    with world.client() as client, suppress(ConnectionResetError, BrokenPipeError):
        client.sendall(request)
        return rest(client)
    return b""


def problem_in(reply: bytes) -> tuple[int, str]:
    """Return status and code of a problem reply after checking its headers."""
    head, _, body = reply.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    told = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert headers["x-request-id"] == told["request_id"]
    assert headers["x-content-type-options"] == "nosniff"
    assert int(headers["content-length"]) == len(body)
    assert int(lines[0].split()[1]) == told["status"]
    return told["status"], told["type"].rpartition(":")[2]


def drip(begin: bytes, drop: bytes) -> Callable[[RecordingApplication], bytes]:
    """Return a client that sends a few bytes again and again, until the server closes."""

    def run(world: RecordingApplication) -> bytes:
        with world.client() as client:
            client.sendall(begin)
            client.settimeout(0.05)
            end = time.monotonic() + GUARD_SECONDS
            found = bytearray()
            while time.monotonic() < end:
                try:
                    client.sendall(drop)
                    piece = client.recv(65_536)
                except TimeoutError:
                    continue
                except (ConnectionResetError, BrokenPipeError):
                    return bytes(found)
                if not piece:
                    return bytes(found)
                found += piece
        raise TimeoutError("the server took it all")

    return run


def silent(begin: bytes) -> Callable[[RecordingApplication], bytes]:
    """Return a client that sends some bytes and waits."""

    def run(world: RecordingApplication) -> bytes:
        with world.client() as client:
            client.sendall(begin)
            return rest(client)

    return run


def never_reads(world: RecordingApplication) -> bytes:
    """Request a large reply; read only after the server has given up."""
    with world.client() as client:
        client.sendall(GET % b"endless")
        end = time.monotonic() + GUARD_SECONDS
        while "endless" not in world.ended and time.monotonic() < end:
            time.sleep(0.02)
        rest(client)
    return b"let go" if "endless" in world.ended else b""


SLOW: dict[str, tuple[Callable[[RecordingApplication], bytes], tuple[int, str] | bytes]] = {
    "says nothing": (silent(b""), (408, "request_timeout")),
    "an unfinished head": (silent(b"GET / HTTP/1.1\r\nHost: x\r\n"), (408, "request_timeout")),
    "a head that never ends": (drip(b"GET / HTTP/1.1\r\n", b"X-A: b\r\n"), (408, "request_timeout")),
    "a name that never ends": (drip(b"GET / HTTP/1.1\r\n", b"X"), (408, "request_timeout")),
    "empty lines": (drip(b"", b"\r\n"), (408, "request_timeout")),
    "no body": (silent(POST % b"length"), (408, "request_timeout")),
    "a body that drips": (drip(POST % b"length", b"x"), (408, "request_timeout")),
    "a chunked body that drips": (drip(CHUNKED % b"length", b"1\r\nx\r\n"), (408, "request_timeout")),
    "a body after the answer": (drip(POST % b"hello", b"x" * 100), b"hello"),
    "an unfinished second head": (silent(GET % b"hello" + b"GET / HT"), b"hello"),
    "empty lines after an answer": (drip(GET % b"hello", b"\r\n"), b"hello"),
    "no second request": (silent(GET % b"hello"), b"hello"),
    "never reads": (never_reads, b"let go"),
}


def body_that_is_fair(world: RecordingApplication) -> bytes:
    """Send a body slowly, but faster than the limit, for longer than the time limit."""
    with world.client() as client:
        piece = b"x" * MIN_BODY_BYTES
        client.sendall(b"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (len(piece) * FAIR_PIECES))
        for _ in range(FAIR_PIECES):
            client.sendall(piece)
            time.sleep(0.2)
        return rest(client)


def reader_that_is_fair(world: RecordingApplication) -> bytes:
    """Read a large reply for longer than the time limit; return whether all of it came."""
    with world.client() as client:
        # A window size of the kernel's choice may open in steps of a megabyte, and show no progress for a
        # second.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, len(PIECE))
        client.sendall(GET % b"fair")
        taken = 0
        while taken < len(PIECE) * 64 and (piece := client.recv(len(PIECE))):
            taken += len(piece)
            time.sleep(0.08)
        return b"%a" % (taken >= len(PIECE) * 64)


FAIR: dict[str, tuple[Callable[[RecordingApplication], bytes], bytes]] = {
    "a slow body": (body_that_is_fair, b"%d False" % (MIN_BODY_BYTES * FAIR_PIECES)),
    "a slow reader": (reader_that_is_fair, b"True"),
    "a slow answer": (silent(GET % b"thinking"), b"hello"),
    "a quiet stream": (silent(GET % b"quiet"), b"done"),
}


def test_slow_clients_are_disconnected_and_others_served(world: RecordingApplication) -> None:
    with ThreadPoolExecutor(len(SLOW) + len(FAIR)) as pool:
        slow = {label: pool.submit(run, world) for label, (run, _) in SLOW.items()}
        fair = {label: pool.submit(run, world) for label, (run, _) in FAIR.items()}
        while not all(one.done() for one in slow.values()):
            assert b"hello" in answer_to(world, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            time.sleep(0.02)
        for label, (_, wanted) in SLOW.items():
            found = slow[label].result()
            if isinstance(wanted, bytes):
                assert wanted in found, label
            else:
                assert problem_in(found) == wanted, label
        assert slow["a body after the answer"].result().endswith(b"hello")
        for label, (_, told) in FAIR.items():
            assert told in fair[label].result(), label


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX\x00: y\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n Y: b\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\nY\r: b\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 4 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\n" + b"a" * 4 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (b"GET /" + b"a" * MAX_URL_BYTES + b" HTTP/1.1\r\n\r\n", 431, "headers_too_large"),
        (b"GET /" + b"a" * 4 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (b"\r\n" * 2 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (CHUNKED % b"length" + b"1;" + b"e" * 4 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (CHUNKED % b"length" + b"0\r\nT: " + b"e" * 4 * MAX_HEADER_BYTES, 431, "headers_too_large"),
        (CHUNKED % b"length" + b"0\r\n" + b"T: e\r\n" * MAX_HEADER_BYTES, 431, "headers_too_large"),
    ],
    ids=lambda value: ascii(value)[:50],
)  # fmt: skip
def test_malformed_and_oversized_requests_are_refused(
    world: RecordingApplication, request_: bytes, status: int, code: str
) -> None:
    with world.client() as client, ThreadPoolExecutor(1) as pool:
        # The server answers during the upload and then closes, so that the answer may be lost.
        reading = pool.submit(rest, client)
        with suppress(ConnectionResetError, BrokenPipeError):
            client.sendall(request_)
        found = reading.result(GUARD_SECONDS)
    assert (not found and len(request_) > 65_536) or problem_in(found) == (status, code)


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (b"GET /x HTTP/1.1\r\nConnection: close\r\n" + b"A: b\r\n" * (MAX_HEADERS - 1) + b"\r\n", b"hello"),
        (b"GET /?" + b"a" * (MAX_URL_BYTES - 2) + b" HTTP/1.1\r\nConnection: close\r\n\r\n", b"hello"),
        (CHUNKED % b"length" + b"3\r\nabc\r\n0\r\nX-Late: 1\r\nAuthorization: x\r\n\r\n", b"3 False"),
        ((GET % b"x") * 2 + b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", b"hello"),
        (b"GET /x HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nHost: x\r\n\r\n", b"hello"),
        (b"POST /length HTTP/1.1\r\nContent-Length: 3\r\n" + CLOSE_OR_H2C + b"\r\nabc", b"\r\n\r\n3 False"),
        (
            b"POST /length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + CLOSE_OR_H2C + b"\r\n1\r\na\r\n0\r\n\r\n",
            b"1 False",
        ),
    ],
    ids=["headers", "query", "trailers", "pipeline", "upgrade", "h2c", "h2c in chunks"],
)
def test_unusual_valid_requests_are_answered(world: RecordingApplication, request_: bytes, told: bytes) -> None:
    found = answer_to(world, request_)
    assert b"200 OK" in found
    assert told in found
    assert b"\r\nserver:" not in found.lower()


def test_body_after_upgrade_request_is_not_a_second_request(world: RecordingApplication) -> None:
    """Otherwise a client of a shared connection could put a request before the requests of others."""
    hidden, last = GET % b"x", b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n"
    head = b"POST /length HTTP/1.1\r\nContent-Length: %d\r\n%s\r\n" % (len(hidden), H2C)
    with world.client() as client:
        client.sendall(head.replace(b"\r\n", b"\r\nExpect: 100-continue\r\n", 1))
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")  # so head and body arrive separately
        client.sendall(hidden + (head + hidden) * 2 + last)
        found = rest(client)
    assert found.count(b"HTTP/1.1 200 OK") == 4
    assert found.count(b"%d False" % len(hidden)) == 3
    assert found.count(b"hello") == 1


def test_expect_continue_is_answered_before_body(world: RecordingApplication) -> None:
    with world.client() as client:
        client.sendall(b"POST /length HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        client.sendall(b"abc")
        assert b"3 False" in rest(client)

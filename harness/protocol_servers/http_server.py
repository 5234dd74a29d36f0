"""Base classes of the protocol servers. Each server runs in a separate thread while its ``with`` block runs."""

import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar


class ProtocolServer(ABC):
    """Server that runs in a thread while its ``with`` block runs.

    ``stopping`` is set when the server stops, so that waiting replies end. ``client_left`` is set when a client closes
    the connection while its reply waits.
    """

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.client_left = threading.Event()

    @abstractmethod
    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""

    def end(self) -> None:
        """End all replies that wait."""
        self.stopping.set()

    def __enter__(self) -> Self:
        self._http = self.create_http_server()
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """Address of the server, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"


FailureT = TypeVar("FailureT")


class FailingServer(ProtocolServer, Generic[FailureT]):
    """Protocol server that stores its requests in ``received`` and whose next replies can fail.

    A reply with the failure "late" waits for the event ``released``.
    """

    received: list[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._failures: list[FailureT] = []
        self.released = threading.Event()

    def end(self) -> None:
        """End all replies that wait, including those with the failure "late"."""
        self.released.set()
        super().end()

    def reset(self) -> None:
        """Discard the stored requests and the planned failures."""
        with self._lock:
            self.received.clear()
            self._failures.clear()

    def record(self, request: Any) -> FailureT | None:
        """Store a request, and return the failure for its reply."""
        with self._lock:
            self.received.append(request)
            return self._failures.pop(0) if self._failures else None


ServedT = TypeVar("ServedT", bound=ProtocolServer)


class LongQueueServer(ThreadingHTTPServer):
    """HTTP server with a long queue of pending connections.

    With the default queue of 5, the sixth client on a busy machine waits a second, until TCP retries the connection.
    """

    request_queue_size = 128


class ProtocolHttpServer(LongQueueServer, Generic[ServedT]):
    """HTTP server of a protocol server."""

    daemon_threads = True

    def __init__(self, served: ServedT, handler: type["ProtocolHandler[ServedT]"], *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.served = served

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, because clients may close their connection at any time."""


class ProtocolHandler(BaseHTTPRequestHandler, Generic[ServedT]):
    """Handler that replies like real endpoints: with persistent connections and without delay."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: ProtocolHttpServer[ServedT]

    @property
    def served(self) -> ServedT:
        """The protocol server of this request."""
        return self.server.served

    def read_json(self) -> Any:
        """Read the body and return its JSON."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def read_headers(self) -> dict[str, str]:
        """Return the headers by lower-case name."""
        return {name.lower(): value for name, value in self.headers.items()}

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a reply.

        Args:
            status: HTTP status.
            body: The body.
            headers: Headers that replace the defaults: JSON, with the right length. A test may send a false length.
        """
        self.send_response_only(status)
        reported = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        for name, value in reported.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def wait_without_answer(self, *, drips: bool = False) -> None:
        """Send nothing, or one byte at a time, until the client closes the connection or the server stops.

        Args:
            drips: Whether to send bytes.
        """
        self.close_connection = True
        # When the client has closed the connection, writing and checking raise OSError; this ends the wait.
        with suppress(OSError):
            if drips:
                self.send(200, b"", {"Content-Length": "1000000"})
            while not self._has_client_left():
                if self.served.stopping.wait(0.02):
                    return
                if drips:
                    self.wfile.write(b" ")
                    self.wfile.flush()
        self.served.client_left.set()

    def _has_client_left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def log_message(self, format: str, *args: object) -> None:
        """Ignore log messages, to keep them out of the tests' output."""

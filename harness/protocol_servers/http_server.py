"""What the protocol servers share: each is served by a thread of its own, on a free port, for as long as a ``with``."""

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
    """``make`` gives the HTTP server; ``stopping`` is set when it is to end, for replies that wait.

    ``left`` is set when a client has left while a reply of its own kept it waiting.
    """

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.client_left = threading.Event()

    @abstractmethod
    def create_http_server(self) -> ThreadingHTTPServer:
        """Bound to a port, not yet serving."""

    def end(self) -> None:
        """Let go of every reply that waits."""
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
        """Where it is served."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"


FailureT = TypeVar("FailureT")


class FailingServer(ProtocolServer, Generic[FailureT]):
    """A protocol server that keeps its requests in ``received`` and whose next replies can fail.

    A reply that is "late" waits for ``released``.
    """

    received: list[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._failures: list[FailureT] = []
        self.released = threading.Event()

    def end(self) -> None:
        self.released.set()
        super().end()

    def reset(self) -> None:
        """Forget the requests, and the failures that are still to come."""
        with self._lock:
            self.received.clear()
            self._failures.clear()

    def record(self, request: Any) -> FailureT | None:
        """Keep a request; return the failure of its reply."""
        with self._lock:
            self.received.append(request)
            return self._failures.pop(0) if self._failures else None


ServedT = TypeVar("ServedT", bound=ProtocolServer)


class LongQueueServer(ThreadingHTTPServer):
    """An HTTP server with a long queue of connections.

    With the default of 5, the sixth client of a busy machine waits a second until its system connects again.
    """

    request_queue_size = 128


class ProtocolHttpServer(LongQueueServer, Generic[ServedT]):
    """What listens for one of them."""

    daemon_threads = True

    def __init__(self, served: ServedT, handler: type["ProtocolHandler[ServedT]"], *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.served = served

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has given up is no news."""


class ProtocolHandler(BaseHTTPRequestHandler, Generic[ServedT]):
    """A request that is answered as real endpoints do: on connections that are kept, without delay."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: ProtocolHttpServer[ServedT]

    @property
    def served(self) -> ServedT:
        return self.server.served

    def read_json(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def read_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """JSON, unless ``headers`` say otherwise; they may lie about the length."""
        self.send_response_only(status)
        reported = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        for name, value in reported.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def wait_without_answer(self, *, drips: bool = False) -> None:
        """Answer nothing, or a byte at a time without end, until the client has left, or the server's end."""
        self.close_connection = True
        # Writing to a client that has left, or asking whether it has, fails: that is what is waited for.
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
        """Not among the tests' output."""

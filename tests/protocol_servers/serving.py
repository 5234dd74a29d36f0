"""What the protocol servers share: each is served by a thread of its own, on a free port, for as long as a ``with``."""

import threading
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Self


class ProtocolServer:
    """``make`` gives the HTTP server; ``stopping`` is set when it is to end, for replies that wait."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.stopping = threading.Event()

    def make(self) -> ThreadingHTTPServer:
        """Bound to a port, not yet serving."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of every reply that waits."""
        self.stopping.set()

    def __enter__(self) -> Self:
        self._http = self.make()
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

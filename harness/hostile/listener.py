"""Listening socket that counts connections. Hostile files have its address as their link target."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class LinkListener:
    """Listener that accepts, counts and closes each connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._connected = threading.Event()
        threading.Thread(target=self._count_connections, daemon=True).start()

    def _count_connections(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.close()
            self.connections += 1
            self._connected.set()

    def check(self) -> None:
        """Connect once, check that the connection is counted, and reset the count."""
        socket.create_connection(self._socket.getsockname(), timeout=5).close()
        if not self._connected.wait(5):
            raise RuntimeError("the listener hears nothing")
        self.connections = 0

    def close(self) -> None:
        """Close the socket, which also ends the thread."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def link_listener() -> Iterator[LinkListener]:
    """Run a listener until the block ends. A test connection first shows that it counts connections."""
    listener = LinkListener()
    try:
        listener.check()
        yield listener
    finally:
        listener.close()

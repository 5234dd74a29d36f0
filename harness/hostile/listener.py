"""A listening socket that counts who connects: the address that hostile files ask their reader to fetch."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Listener:
    """Accepts and closes every connection."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._heard = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.close()
            self.connections += 1
            self._heard.set()

    def prove(self) -> None:
        """Connect once, see that it is counted, and count from 0 again."""
        socket.create_connection(self._socket.getsockname(), timeout=5).close()
        if not self._heard.wait(5):
            raise RuntimeError("the listener hears nothing")
        self.connections = 0

    def close(self) -> None:
        """End accepting too."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener that has shown that it hears, until the block ends."""
    listener = Listener()
    try:
        listener.prove()
        yield listener
    finally:
        listener.close()

"""OpenAI-compatible embedding endpoint with little CPU time: it returns a random direction for each text.

As a program, it prints its port and serves until its standard input ends.
"""

import base64
import json
import sys
import threading
import zlib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

DIMENSIONS = 384


def compute_direction(text: str) -> bytes:
    """Return a vector of unit length as bytes: ``DIMENSIONS`` little-endian float32. The text is the random seed."""
    vector = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSIONS, np.float32)
    return (vector / np.linalg.norm(vector)).astype("<f4").tobytes()


class RandomEmbeddingHandler(BaseHTTPRequestHandler):
    """Handler that returns the direction of each text. A subclass may override ``delay_reply`` to wait."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Reply with the directions of the texts, in base64."""
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        texts = [texts] if isinstance(texts, str) else texts
        self.delay_reply(texts)
        data = [
            {"object": "embedding", "index": index, "embedding": base64.b64encode(compute_direction(text)).decode()}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        body = json.dumps({"object": "list", "model": "directions", "data": data, "usage": usage}).encode()
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def delay_reply(self, texts: list[str]) -> None:
        """Return at once."""

    def handle(self) -> None:
        """Handle the requests of a connection, and ignore a broken connection."""
        with suppress(ConnectionError):  # the client was terminated
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Ignore log messages."""
        pass


def main() -> None:
    """Print the port and serve until the standard input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), RandomEmbeddingHandler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()

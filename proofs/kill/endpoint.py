"""Slow embedding endpoint that knows the documents whose chunks it currently embeds."""

import random
import threading
from collections import Counter
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Self

from harness.embedding_endpoint import RandomEmbeddingHandler
from proofs.kill.expectations import MARK

QUERY_PREFIX = "query: "
LATENCY_RANGE_SECONDS = (0.1, 0.4)


class SlowEmbeddingEndpoint(ThreadingHTTPServer):
    """Embedding server that delays chunks but not queries. As a context manager it serves ``base_url``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SlowEmbeddingHandler)
        self._under_way: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def list_slots(self) -> set[int]:
        """Return the slots whose chunks are currently being embedded."""
        with self._lock:
            return {slot for slot, count in self._under_way.items() if count > 0}

    def simulate_latency(self, texts: list[str]) -> None:
        """Wait 0.1 to 0.4 s, as a real model would, and record the slots of the texts during the wait."""
        slots = {int(result[0]) for text in texts for result in MARK.findall(text)}
        with self._lock:
            self._under_way.update(slots)
        try:
            threading.Event().wait(random.uniform(*LATENCY_RANGE_SECONDS))
        finally:
            with self._lock:
                self._under_way.subtract(slots)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections, because killed clients cause them."""


class _SlowEmbeddingHandler(RandomEmbeddingHandler):
    server: SlowEmbeddingEndpoint

    def delay_reply(self, texts: list[str]) -> None:
        if not texts[0].startswith(QUERY_PREFIX):
            self.server.simulate_latency(texts)

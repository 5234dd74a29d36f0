"""A service whose embedding endpoint a test can block."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service

UPLOAD_LIMIT = 200_000


@dataclass
class HoldingServer(EmbeddingServer):
    """Embedding server that can block every request."""

    released: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        self.released.wait(30)
        super().wait(seconds)


@dataclass(frozen=True)
class BreakableService:
    """A service with the parts that a test can break."""

    service: Service
    embedding: HoldingServer
    data_dir: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block all embeddings until the end of the block or until ``release``. Keep the block short."""
        self.embedding.released.clear()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self.embedding.released.set()

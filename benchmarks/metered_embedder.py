"""Embedder plugin that wraps the client of an embedding endpoint and counts the CPU time of that client.

The plugin runs in the API process and adds the CPU time of the event loop's thread to a file. Waiting for the endpoint
takes no CPU time and is not counted.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.inference.embedding import Embedder, Vectors
from app.inference.embedding.factory import create_embedder
from app.inference.embedding.rate_limit import RateLimitStore
from app.settings import EmbeddingSettings

PLUGIN_NAME, METER_VARIABLE = "metered", "BENCHMARK_METER"
_SECONDS = struct.Struct("d")


@dataclass(frozen=True, slots=True)
class Meter:
    """Reader of a file in which another process sums CPU seconds."""

    path: Path

    @property
    def seconds(self) -> float:
        """CPU seconds spent in the embedding of queries until now."""
        return float(_SECONDS.unpack(self.path.read_bytes())[0])


class MeteredEmbedder:
    """Embedder that delegates to another embedder and counts the CPU time of query embeddings."""

    def __init__(self, inner: Embedder, place: mmap.mmap) -> None:
        self._inner, self._buffer = inner, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        begun = time.thread_time()
        try:
            return await self._inner.embed_queries(texts)
        finally:
            spent = _SECONDS.unpack_from(self._buffer)[0] + time.thread_time() - begun
            _SECONDS.pack_into(self._buffer, 0, spent)


def create_metered_embedder(settings: EmbeddingSettings) -> MeteredEmbedder:
    """Create the metered embedder. This function is the plugin's entry point."""
    with Path(os.environ[METER_VARIABLE]).open("r+b") as file:
        place = mmap.mmap(file.fileno(), _SECONDS.size)
    no_ledger = cast(RateLimitStore, None)  # not used: the settings have no rate limits
    inner = create_embedder(settings.model_copy(update={"provider": None}), 1, no_ledger)
    return MeteredEmbedder(inner, place)


@contextmanager
def metered_settings() -> Iterator[tuple[Mapping[str, str], Meter]]:
    """Install the plugin in a temporary directory; yield the settings of a service that uses it, and its meter."""
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        about, meter = Path(folder) / f"{PLUGIN_NAME}-1.0.dist-info", Path(folder) / "meter"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PLUGIN_NAME}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            f"[carrel.embedders]\n{PLUGIN_NAME} = {__name__}:{create_metered_embedder.__name__}\n"
        )
        meter.write_bytes(_SECONDS.pack(0.0))
        path = os.pathsep.join(part for part in (folder, os.environ.get("PYTHONPATH")) if part)
        yield {"PYTHONPATH": path, METER_VARIABLE: str(meter), "CARREL_EMBEDDING_PROVIDER": PLUGIN_NAME}, Meter(meter)

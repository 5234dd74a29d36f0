"""The client of an embedding endpoint, as a plugin that counts what it costs the process that searches.

Model time is the time inside the embedder: here CPU of the event loop's thread, for an endpoint is only waited for.
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
    """Seconds, in a file that another process adds to."""

    path: Path

    @property
    def seconds(self) -> float:
        """Spent up to now, in queries."""
        return float(_SECONDS.unpack(self.path.read_bytes())[0])


class MeteredEmbedder:
    """Everything but the count is the inner one's."""

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
    """The plugin's factory."""
    with Path(os.environ[METER_VARIABLE]).open("r+b") as file:
        place = mmap.mmap(file.fileno(), _SECONDS.size)
    no_ledger = cast(RateLimitStore, None)  # no limits are set
    inner = create_embedder(settings.model_copy(update={"provider": None}), 1, no_ledger)
    return MeteredEmbedder(inner, place)


@contextmanager
def metered_settings() -> Iterator[tuple[Mapping[str, str], Meter]]:
    """Settings of a service whose embedder is metered, and its meter."""
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

"""The weights, both precisions of the embedded model, and an embedding endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.settings import EmbeddingSettings

if TYPE_CHECKING:
    from app.inference.embedding.minilm import MiniLMEmbedder
    from app.inference.embedding.openai_embedder import OpenAIEmbedder
    from harness.protocol_servers.embedding import EmbeddingServer

EmbedderOpener = Callable[..., "OpenAIEmbedder"]


@pytest.fixture(scope="session")
def weights_dir() -> Path:
    from app.inference.embedding.weights import find_weights

    return find_weights(None, Path.home() / ".cache")


@pytest.fixture(scope="session")
async def fp32(weights_dir: Path) -> AsyncIterator[MiniLMEmbedder]:
    from app.inference.embedding.minilm import MiniLMEmbedder

    embedder = MiniLMEmbedder.load(weights_dir, precision="fp32", bulk_threads=1)
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
async def int8(weights_dir: Path) -> AsyncIterator[MiniLMEmbedder]:
    from app.inference.embedding.minilm import MiniLMEmbedder

    embedder = MiniLMEmbedder.load(weights_dir, precision="int8", bulk_threads=2)
    yield embedder
    await embedder.close()


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    from harness.protocol_servers.embedding import EmbeddingServer

    with EmbeddingServer() as running:
        yield running


@pytest.fixture
async def open_embedder(server: EmbeddingServer) -> AsyncIterator[EmbedderOpener]:
    opened: list[OpenAIEmbedder] = []

    def opener(base_url: str | None = None, api_key: str | None = "key-of-the-test", **changed: Any) -> OpenAIEmbedder:
        from app.inference.embedding.openai_embedder import OpenAIEmbedder

        options: dict[str, Any] = {
            "send_dimensions": False,
            "max_tokens": 8191,
            "query_prefix": "",
            "document_prefix": "",
            "timeout_seconds": 10.0,
            "format_setting_name": EmbeddingSettings().format_setting_name,
        }
        dimensions = changed.pop("dimensions", server.dimensions)
        embedder = OpenAIEmbedder(base_url or server.base_url, api_key, "a-model", dimensions, **{**options, **changed})
        opened.append(embedder)
        return embedder

    yield opener
    for embedder in opened:
        await embedder.close()

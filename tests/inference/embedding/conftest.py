"""The weights, the local models, and an embedding endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.settings import EmbeddingSettings

if TYPE_CHECKING:
    from app.inference.embedding.e5_model import E5Model
    from app.inference.embedding.local_embedder import LocalEmbedder
    from app.inference.embedding.openai_embedder import OpenAIEmbedder
    from harness.protocol_servers.embedding import EmbeddingServer
    from tests.inference.embedding.e5_reference import StoredE5File

EmbedderOpener = Callable[..., "OpenAIEmbedder"]


def find(name: str) -> Path:
    """Return the directory of a local model's weights."""
    from app.inference.embedding.local_models import LOCAL_MODELS
    from app.inference.embedding.weights import require_weights

    return require_weights(LOCAL_MODELS[name], None, Path.home() / ".cache")


def load(name: str, *, directory: Path | None = None, bulk_threads: int = 1, **identity: str) -> LocalEmbedder:
    """Load a local model, from another directory if one is given."""
    from app.inference.embedding.local_loader import get_identity, load_local_embedder
    from app.inference.embedding.local_models import LOCAL_MODELS

    expected = get_identity(LOCAL_MODELS[name], **identity)
    return load_local_embedder(directory or find(name), expected, bulk_threads=bulk_threads)


@pytest.fixture(scope="session")
def weights_dir() -> Path:
    return find("all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
async def fp32() -> AsyncIterator[LocalEmbedder]:
    embedder = load("all-MiniLM-L6-v2", precision="fp32")
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
async def int8() -> AsyncIterator[LocalEmbedder]:
    embedder = load("all-MiniLM-L6-v2", precision="int8", bulk_threads=2)
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
async def bge() -> AsyncIterator[LocalEmbedder]:
    embedder = load("bge-small-en-v1.5", bulk_threads=2)
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
async def multilingual() -> AsyncIterator[LocalEmbedder]:
    embedder = load("multilingual-e5-small", bulk_threads=2)
    yield embedder
    await embedder.close()


@pytest.fixture(scope="session")
def e5_stored() -> StoredE5File:
    from tests.inference.embedding.e5_reference import StoredE5File

    return StoredE5File(find("multilingual-e5-small") / "e5-small-q4.bin")


@pytest.fixture(scope="session")
def e5() -> E5Model:
    from app.inference.embedding.e5_model import E5Model

    return E5Model.load(find("multilingual-e5-small"))


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

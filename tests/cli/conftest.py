"""Directories that Postgres' user can reach, and texts that take some seconds to ingest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.postgres import make_directories

if TYPE_CHECKING:
    from harness.protocol_servers.embedding import EmbeddingServer

WORDS = ["harbour", "island", "jetty", "kelp", "lagoon", "marsh", "northern", "oxbow", "peninsula", "quarry", "reef"]


@pytest.fixture(scope="session")
def new_place(postgres_directory: Path) -> Callable[[], Path]:
    """Factory of directories for commands."""
    return make_directories(postgres_directory, "command", 0o711)


@pytest.fixture
def place(new_place: Callable[[], Path]) -> Path:
    """New directory."""
    return new_place()


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Texts of about five chunks each."""
    rng = random.Random(11)
    return [
        f"# Text {number}\n\n" + "\n\n".join(" ".join(rng.choices(WORDS, k=120)) + "." for _ in range(5))
        for number in range(6)
    ]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[EmbeddingServer]:
    """Embedding endpoint with a latency of half a second."""
    from harness.protocol_servers.embedding import EmbeddingServer

    with EmbeddingServer(latency_seconds=0.5) as server:
        yield server


@pytest.fixture(autouse=True)
def well(request: pytest.FixtureRequest) -> None:
    """Reset of the endpoint before each test that uses it."""
    if "endpoint" in request.fixturenames:
        endpoint: EmbeddingServer = request.getfixturevalue("endpoint")
        endpoint.reset()
        endpoint.api_key = None


def embedding_settings(endpoint: EmbeddingServer, *, dimensions: int = 64) -> dict[str, str]:
    """Return the settings of an embedding endpoint."""
    return {
        "CARREL_EMBEDDING_BASE_URL": endpoint.base_url,
        "CARREL_EMBEDDING_DIMENSIONS": str(dimensions),
        "CARREL_EMBEDDING_MODEL": "words",
        "CARREL_EMBEDDING_TIMEOUT_SECONDS": "2",
    }

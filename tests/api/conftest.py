"""A second service for these tests: a small limit on uploads, and an embedding endpoint that can fail."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.database import MakeDatabase
from tests.fixtures.service import Service, run_service, settings_for
from tests.protocol_servers.embedding import EmbeddingServer

UPLOAD_LIMIT = 200_000


@dataclass(frozen=True)
class Fragile:
    """The service and what can be broken under it."""

    service: Service
    embedding: EmbeddingServer
    data_dir: Path


@pytest.fixture(scope="package")
def fragile(make_database: MakeDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    data_dir = tmp_path_factory.mktemp("fragile")
    with EmbeddingServer(dimensions=64) as embedding:
        settings = settings_for(
            data_dir,
            server={"CARREL_MAX_UPLOAD_BYTES": UPLOAD_LIMIT},
            embedding={
                "CARREL_EMBEDDING_BASE_URL": embedding.base_url,
                "CARREL_EMBEDDING_MODEL": "test-model",
                "CARREL_EMBEDDING_DIMENSIONS": 64,
                "CARREL_EMBEDDING_TIMEOUT_SECONDS": 3,
            },
        )
        with run_service(settings, make_database()) as service:
            yield Fragile(service, embedding, data_dir)

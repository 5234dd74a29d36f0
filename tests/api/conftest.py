"""A second service for these tests, with a small limit on uploads and an embedding endpoint that can fail; the log."""

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.logging import configure_logging
from harness.databases import DatabaseFactory
from harness.protocol_servers.chat import ChatServer
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, build_settings, run_service

UPLOAD_LIMIT = 200_000
LOGGERS = ["", "app", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "alembic"]


@dataclass
class HoldingServer(EmbeddingServer):
    """One that can keep every request waiting."""

    released: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> None:
        self.released.wait(30)
        super().wait(seconds)


@dataclass(frozen=True)
class BreakableService:
    """The service and what can be broken under it."""

    service: Service
    embedding: HoldingServer
    data_dir: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """No document gets beyond its embedding until the end of the block, or ``release``; keep it short."""
        self.embedding.released.clear()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self.embedding.released.set()


@pytest.fixture(scope="package")
def fragile(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BreakableService]:
    data_dir = tmp_path_factory.mktemp("fragile")
    with HoldingServer(dimensions=64) as embedding:
        embedding.released.set()
        settings = build_settings(
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
            yield BreakableService(service, embedding, data_dir)


@pytest.fixture(scope="module")
def running_chat() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def embedding() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture(scope="module")
def talking(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """A service with a chat model."""
    settings = build_settings(
        tmp_path_factory.mktemp("talking"),
        embedding=embedding.settings,
        models={"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"},
    )
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The log of the whole process at its most talkative; the loggers are put back."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one, one.level, one.propagate, one.disabled, list(one.handlers)) for one in loggers]
    out = io.StringIO()
    configure_logging("debug", out)
    yield out
    for one, level, propagate, disabled, handlers in before:
        one.setLevel(level)
        one.propagate, one.disabled, one.handlers[:] = propagate, disabled, handlers

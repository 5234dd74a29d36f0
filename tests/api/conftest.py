"""Fixtures of the API's tests: services with special settings, and the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.logging import configure_logging

if TYPE_CHECKING:
    from harness.databases import DatabaseFactory
    from harness.protocol_servers.chat import ChatServer
    from harness.protocol_servers.embedding import EmbeddingServer
    from harness.running_service import Service
    from harness.section_writer import SectionWriter
    from tests.api.breakable_service import BreakableService

LOGGERS = ["", "app", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "alembic"]


@pytest.fixture(scope="package")
def fragile(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BreakableService]:
    from harness.running_service import build_settings, run_service
    from tests.api.breakable_service import UPLOAD_LIMIT, BreakableService, HoldingServer

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
    from harness.protocol_servers.chat import ChatServer

    with ChatServer() as server:
        yield server


@pytest.fixture
def writer(running_chat: ChatServer) -> SectionWriter:
    """Writer of the replies of the chat server, which enrich documents."""
    from harness.section_writer import SectionWriter, measure_tokens

    running_chat.reset()
    running_chat.measure_tokens = measure_tokens
    running_chat.delay_seconds = 0.0
    running_chat.reply = made = SectionWriter()
    return made


@pytest.fixture(scope="module")
def embedding() -> Iterator[EmbeddingServer]:
    from harness.protocol_servers.embedding import EmbeddingServer

    with EmbeddingServer() as server:
        yield server


@pytest.fixture(scope="module")
def talking(
    running_chat: ChatServer,
    embedding: EmbeddingServer,
    make_database: DatabaseFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """Service with a chat model."""
    from harness.running_service import build_settings, run_service

    settings = build_settings(
        tmp_path_factory.mktemp("talking"),
        embedding=embedding.settings,
        models={"CARREL_CHAT_BASE_URL": running_chat.base_url, "CARREL_CHAT_MODEL": "talker"},
    )
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Stream of the process's log at debug level; the loggers are restored afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one, one.level, one.propagate, one.disabled, list(one.handlers)) for one in loggers]
    out = io.StringIO()
    configure_logging("debug", out)
    yield out
    for one, level, propagate, disabled, handlers in before:
        one.setLevel(level)
        one.propagate, one.disabled, one.handlers[:] = propagate, disabled, handlers

"""A chat model's server."""

from collections.abc import Iterator

import pytest

from harness.protocol_servers.chat import ChatServer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running

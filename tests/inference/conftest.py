"""Server of a chat model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.protocol_servers.chat import ChatServer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    from harness.protocol_servers.chat import ChatServer

    with ChatServer() as running:
        yield running

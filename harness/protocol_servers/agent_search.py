"""Endpoint of the external-search contract, which returns fixed passages and can fail."""

import json
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from harness.protocol_servers.http_server import FailingServer, ProtocolHandler, ProtocolHttpServer


@dataclass(frozen=True, slots=True)
class ReceivedAgentSearch:
    """Received request."""

    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class AgentSearchServer(FailingServer[int | str]):
    """Endpoint while the ``with`` block runs. A failure is a status, the word "never", or the body of the reply."""

    passages: list[str] = field(default_factory=list)
    received: list[ReceivedAgentSearch] = field(default_factory=list)

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""
        return ProtocolHttpServer(self, _AgentSearchHandler)

    def fail(self, failure: int | str, *, times: int = 1) -> None:
        """Make the next replies fail."""
        with self._lock:
            self._failures += [failure] * times

    @property
    def port(self) -> int:
        """Port of the server."""
        return int(self.address.rpartition(":")[2])


class _AgentSearchHandler(ProtocolHandler[AgentSearchServer]):
    def do_POST(self) -> None:
        """Return the passages, or the next planned failure."""
        failure = self.served.record(ReceivedAgentSearch(self.path, self.read_json(), self.read_headers()))
        if failure == "never":
            self.wait_without_answer()
        elif isinstance(failure, str):
            self.send(200, failure.encode())
        else:
            self.send(failure or 200, json.dumps(self.served.passages).encode())

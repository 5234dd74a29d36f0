"""Receiver of webhooks. It stores the requests, and accepts, refuses, redirects or ignores them."""

import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

from harness.protocol_servers.http_server import LongQueueServer, ProtocolServer


@dataclass(frozen=True)
class ReceivedWebhook:
    """Received request."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verify(self, secret: str) -> dict[str, Any]:
        """Return the payload. Raises WebhookVerificationError if the signature does not match the secret."""
        result: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return result

    @property
    def id(self) -> str:
        """Id of the delivery."""
        return self.headers["webhook-id"]


@dataclass
class WebhookReceiver(ProtocolServer):
    """Receiver that runs while its ``with`` block runs.

    Attributes:
        status: HTTP status of replies after ``statuses`` is used up.
        statuses: HTTP statuses of the next replies.
        is_silent: Whether requests get no reply.
        tls: TLS context of the server; None serves plain HTTP.
        headers: Further headers of replies, such as ``Location``.
        reply_body: Body of replies.
        received: Received requests.
        changed: Condition that is notified of each request.
    """

    status: int = 200
    statuses: list[int] = field(default_factory=list)
    is_silent: bool = False
    tls: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)
    reply_body: bytes = b""
    received: list[ReceivedWebhook] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP or HTTPS server, bound to a port and not yet serving."""
        receiver = self

        class WebhookHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = receiver.record(ReceivedWebhook(self.path, headers, body))
                if receiver.is_silent:
                    receiver.stopping.wait(60)
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.reply_body)))
                self.end_headers()
                self.wfile.write(receiver.reply_body)

            def log_message(self, format: str, *args: Any) -> None:
                """Ignore log messages."""

        class WebhookReceiverServer(LongQueueServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Ignore errors, because a client that does not trust the certificate closes the connection."""

        server = WebhookReceiverServer(("127.0.0.1", 0), WebhookHandler)
        if self.tls is not None:
            # The thread of the connection does the handshake, so that a slow client does not block other connections.
            server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        return server

    def record(self, received: ReceivedWebhook) -> int:
        """Store a request, and return the status of its reply."""
        with self.changed:
            self.received.append(received)
            self.changed.notify_all()
            return self.statuses.pop(0) if self.statuses else self.status

    def wait_for(self, count: int) -> list[ReceivedWebhook]:
        """Wait at most 30 seconds for ``count`` requests, and return them."""
        with self.changed:
            enough = self.changed.wait_for(lambda: len(self.received) >= count, timeout=30)
            assert enough, f"{len(self.received)} of {count} came"
            return self.received[:count]

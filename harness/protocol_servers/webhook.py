"""A receiver of webhooks: keeps what it was sent, and takes it, refuses it, leads elsewhere or says nothing."""

import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

from harness.protocol_servers.http_server import LongQueueServer, ProtocolServer


@dataclass(frozen=True)
class ReceivedWebhook:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    def verify(self, secret: str) -> dict[str, Any]:
        """What it says. Raises WebhookVerificationError where it was not signed with this secret."""
        result: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return result

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class WebhookReceiver(ProtocolServer):
    """``statuses`` are of the next requests, one each; then it is ``status``. ``silent`` ones get no answer."""

    status: int = 200
    statuses: list[int] = field(default_factory=list)
    is_silent: bool = False
    tls: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)
    reply_body: bytes = b""
    received: list[ReceivedWebhook] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def create_http_server(self) -> ThreadingHTTPServer:
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
                """Nobody reads it."""

        class WebhookReceiverServer(LongQueueServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that does not believe a certificate just goes."""

        server = WebhookReceiverServer(("127.0.0.1", 0), WebhookHandler)
        if self.tls is not None:
            # The handshake is for the thread of the connection.
            server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        return server

    def record(self, received: ReceivedWebhook) -> int:
        with self.changed:
            self.received.append(received)
            self.changed.notify_all()
            return self.statuses.pop(0) if self.statuses else self.status

    def wait_for(self, count: int) -> list[ReceivedWebhook]:
        """The first so many; within half a minute."""
        with self.changed:
            enough = self.changed.wait_for(lambda: len(self.received) >= count, timeout=30)
            assert enough, f"{len(self.received)} of {count} came"
            return self.received[:count]

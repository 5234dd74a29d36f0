"""HTTP server with scripted replies, which stores the requests it receives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.protocol_servers.http_server import LongQueueServer, ProtocolServer


@dataclass(frozen=True)
class ScriptedReply:
    """One reply. A status of 0 closes the connection instead."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReceivedRequest:
    """Received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class ScriptedServer(ProtocolServer):
    """Server that sends its ``replies`` one after the other, and then repeats the last one."""

    replies: Sequence[ScriptedReply]
    received: list[ReceivedRequest] = field(default_factory=list)

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""
        server = self

        class ScriptedHandler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with server._lock:
                    reply = server.replies[min(len(server.received), len(server.replies) - 1)]
                    server.received.append(ReceivedRequest(self.command, self.path, dict(self.headers), body))
                if reply.status == 0:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *arguments: object) -> None:
                pass

        return LongQueueServer(("127.0.0.1", 0), ScriptedHandler)

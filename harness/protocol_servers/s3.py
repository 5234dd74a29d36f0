"""Proxy of an S3 server. A rule may delay, change or refuse requests, to simulate difficult S3 servers."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from harness.protocol_servers.http_server import LongQueueServer

HOP_BY_HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "server", "date", "content-length"}
ERROR_CODES = {400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 501: "NotImplemented"}


@dataclass
class ProxiedRequest:
    """Request that a rule may read and change."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Rule = Callable[[ProxiedRequest], int | None]


class S3Proxy(LongQueueServer):
    """Proxy that calls ``rule`` with each request before forwarding it.

    If the rule returns a status of ``ERROR_CODES``, the request is refused with that status.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), S3ProxyHandler)
        parts = urlsplit(upstream)
        self.upstream = (parts.hostname or "", parts.port or 0)
        self.rule: Rule = lambda _: None
        self.request_lines: list[str] = []

    @property
    def url(self) -> str:
        """Address of the proxy."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class S3ProxyHandler(BaseHTTPRequestHandler):
    """Handler that calls the rule and forwards the request."""

    protocol_version = "HTTP/1.1"
    server: S3Proxy

    def forward(self) -> None:
        """Forward the request to the S3 server, unless the rule refuses it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = ProxiedRequest(self.command, self.path, dict(self.headers.items()), body)
        self.server.request_lines.append(f"{self.command} {self.path}")
        refusal = self.server.rule(request)
        if refusal is not None:
            self.answer(refusal, {}, f"<Error><Code>{ERROR_CODES[refusal]}</Code></Error>".encode())
            return
        dropped = {"Content-Length", "Expect", "Connection"}
        headers = {name: value for name, value in request.headers.items() if name not in dropped}
        # The client may close its connection before the reply arrives; the upstream connection is closed anyway.
        with closing(http.client.HTTPConnection(*self.server.upstream, timeout=30)) as upstream:
            upstream.request(request.method, request.path, request.body, headers)
            reply = upstream.getresponse()
            self.answer(reply.status, dict(reply.getheaders()), reply.read())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a reply with the headers of the S3 server.

        Args:
            status: HTTP status.
            headers: Headers of the S3 server; headers of its connection are left out.
            body: The body; a reply to HEAD has only its length.
        """
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in HOP_BY_HOP_HEADERS:
                self.send_header(name, value)
        lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
        self.send_header("Content-Length", lengths[0] if self.command == "HEAD" and lengths else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Ignore log messages."""
        pass


@contextmanager
def s3_proxy(upstream: str) -> Iterator[S3Proxy]:
    """Run a proxy on a free port until the block ends.

    Args:
        upstream: Address of the S3 server.

    Yields:
        The proxy.
    """
    server = S3Proxy(upstream)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Admin API of versitygw for users and owners of buckets. All other requests are forwarded to an S3 server."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import httpx2


class S3AdminServer:
    """Admin API that accepts requests signed with the access key ``root``.

    ``users`` has secret and role by access key, and ``owners`` has the owner of each bucket.
    """

    def __init__(self, behind: str, *, root: str) -> None:
        self.upstream, self.root = behind, root
        self.users: dict[str, tuple[str, str]] = {}
        self.owners: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _create_handler_class(self))

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def handle_admin_request(self, path: str, query: dict[str, str], body: bytes, authorization: str) -> int:
        """Handle a request of the admin API.

        Args:
            path: Path of the request.
            query: Query parameters.
            body: XML of a user.
            authorization: Header ``Authorization``. Only the access key in it is checked.

        Returns:
            The HTTP status.
        """
        if not authorization.startswith(f"AWS4-HMAC-SHA256 Credential={self.root}/"):
            return 403
        if path == "/change-bucket-owner/":
            if query["owner"] not in self.users:
                return 404
            self.owners[query["bucket"]] = query["owner"]
            return 200
        said = {each.tag: each.text or "" for each in ElementTree.fromstring(body)}  # the tested script is trusted
        access = said.get("Access") or query.get("access", "")
        if (path == "/create-user") == (access in self.users):
            return 409 if access in self.users else 404
        self.users[access] = said["Secret"], said["Role"]
        return 201


def _create_handler_class(server: S3AdminServer) -> type[BaseHTTPRequestHandler]:
    class S3AdminHandler(BaseHTTPRequestHandler):
        def _read_body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _send_reply(self, status: int, body: bytes = b"", media_type: str = "application/xml") -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PATCH(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._send_reply(
                server.handle_admin_request(parts.path, query, self._read_body(), self.headers.get("Authorization", ""))
            )

        def _forward(self) -> None:
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            reply = httpx2.request(
                self.command, server.upstream + self.path, headers=headers, content=self._read_body()
            )
            self._send_reply(reply.status_code, reply.content, reply.headers.get("Content-Type", "application/xml"))

        do_GET = do_PUT = _forward

        def log_message(self, *_: object) -> None:
            """Ignore log messages."""

    return S3AdminHandler

"""uvicorn server with limits for slow clients: size of a request's head, and time without progress.

uvicorn's httptools protocol accepts heads of any size, and waits without a limit for a slow client. In this module each
connection records what it waits for. The server checks all connections once a second, which costs less than a timer for
each connection.
"""

import asyncio
import socket
from http import HTTPStatus
from typing import Literal

import httptools
import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.http.middleware import DEFAULT_HEADERS
from app.api.http.problems import create_problem_response
from app.cli.connection_limits import Capacity, ConnectionLimiter, Idleness, TrustedProxies, raise_descriptor_limit
from app.ids import encode_id, generate_id
from app.logging import get_logger
from app.settings import ServerSettings

logger = get_logger(__name__)

# The longest URL that httptools parses. The whole head may have twice this size.
MAX_URL_BYTES = 65_535
MAX_HEADER_BYTES = 128 * 1024
MAX_HEADERS = 100
# Minimum number of bytes of a body that a client must send in each period of the client timeout.
MIN_BODY_BYTES = 4 * 1024
# Maximum number of unsent bytes of a response in the kernel. Without this limit the kernel takes megabytes at a time.
# A client that reads some kilobytes per second would then seem to read nothing for minutes.
MAX_UNSENT_BYTES = 128 * 1024
SHUTDOWN_TIMEOUT_SECONDS = 20
# uvicorn ticks ten times a second.
TICKS_PER_CHECK = 10

Refusal = tuple[int, str, str]
MALFORMED_REQUEST: Refusal = (400, "bad_request", "The request is not valid HTTP; check the client.")
REQUEST_TIMEOUT: Refusal = (408, "request_timeout", "The request took too long to arrive.")
HEADERS_TOO_LARGE: Refusal = (
    431,
    "headers_too_large",
    f"The head of the request is too large. Limits: {MAX_URL_BYTES} bytes of the URL, {MAX_HEADER_BYTES} bytes of URL "
    f"and headers together, {MAX_HEADERS} headers.",
)

TOO_MANY_CONNECTIONS: Refusal = (
    429,
    "too_many_connections",
    "This IP address has too many connections, and all of them wait for responses: use fewer connections.",
)


class HeadersTooLarge(Exception):
    """The head of a request exceeds a limit."""


class TimeoutProtocol(HttpToolsProtocol):
    """Connection that records what it waits for: the head or body of a request, or the reading of a response."""

    _awaited_part: Literal["head", "body"] | None = "head"
    _awaited_since = 0.0
    # Bytes and headers of the current head, and bytes of the body since ``_awaited_since``. ``_unparsed_bytes`` counts
    # the bytes since the parser last returned a part of a body or a whole request: the parser may still hold them.
    _header_bytes = _header_count = _body_bytes = _unparsed_bytes = 0
    _parse_refusal = MALFORMED_REQUEST
    _is_upgrade_requested = False
    # Time when the client last read a part of a response, and the number of unsent bytes at that time.
    _last_read_at, _unsent_bytes = 0.0, 0
    # Limiter of all connections of the server; None if the server does not count connections.
    _limiter: ConnectionLimiter | None = None
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Register the connection, and start to wait for the head of the first request."""
        super().connection_made(transport)
        self._start_waiting("head")
        self._last_read_at = self._awaited_since
        self._limiter = getattr(self.config, "connections", None)
        self._address = self.client[0] if self.client else ""
        if self._limiter is not None and not self._limiter.add(self._address, self):
            self._refuse(TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the limiter."""
        if self._limiter is not None:
            self._limiter.discard(self._address, self)
        super().connection_lost(exc)

    @property
    def idleness(self) -> Idleness:
        """State of the client, for ``ConnectionLimiter``."""
        if self.cycle is None or self.cycle.response_complete:
            return "waiting" if self.cycle else "unused"
        return "sending" if self._awaited_part == "body" and not self.pipeline else "busy"

    @property
    def idle_since(self) -> float:
        """Time when the current state began."""
        return self._awaited_since

    def drop(self) -> None:
        """Close the connection immediately; the client can connect again."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse bytes. The first bytes after a response count as the begin of a head, even if they are empty lines,
        which the parser skips.
        """
        if self._awaited_part is None and (self.cycle is None or self.cycle.response_complete):
            self._start_waiting("head")
        self._unparsed_bytes += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refuse(HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Start to wait for the head; in a pipeline, an earlier request may still wait for its response."""
        super().on_message_begin()
        self._start_waiting("head")
        self._header_bytes = self._header_count = 0

    def on_url(self, url: bytes) -> None:
        """Count a piece of the URL. Raises HeadersTooLarge."""
        super().on_url(url)
        self._count_header_bytes(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header of the head. Trailers after a body are not counted, because the limits apply to the head
        only.
        """
        if self._awaited_part == "head":
            self._header_count += 1
            self._count_header_bytes(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to wait for the body."""
        self._is_upgrade_requested = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._is_upgrade_requested:
            return
        super().on_headers_complete()
        self._start_waiting("body")

    def on_body(self, body: bytes) -> None:
        """Count a piece of the body."""
        self._unparsed_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the client timeout until the response is complete, because the client waits for the service."""
        if self._is_upgrade_requested:
            return
        self._unparsed_bytes = 0
        self._awaited_part = None
        super().on_message_complete()

    def resume_writing(self) -> None:
        """Resume writing: the client has read most of the pending data."""
        self._last_read_at, self._unsent_bytes = self.loop.time(), self.transport.get_write_buffer_size()
        super().resume_writing()

    def close_if_stalled(self, now: float, timeout_seconds: float) -> None:
        """Close the connection if the client makes no progress.

        Args:
            now: Time of the event loop, in seconds.
            timeout_seconds: Maximum time without progress.
        """
        unsent_bytes = self.transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes < self._unsent_bytes:
            self._last_read_at = now
        self._unsent_bytes = unsent_bytes
        if now - self._last_read_at > timeout_seconds:
            logger.info("connection.dropped", awaited="reader")
            self.transport.abort()
        elif self._is_overdue(now, timeout_seconds):
            logger.info("connection.dropped", awaited=self._awaited_part)
            self._refuse(REQUEST_TIMEOUT)

    def _parse(self, data: bytes) -> None:
        """Parse data; treat a request for an upgrade like any other request.

        Java's client requests an upgrade to h2c from every plain server. The parser treats the head of such a request
        as the end of HTTP. A new parser therefore gets the head without the upgrade.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self._is_upgrade_requested:
                    return
                data = self._build_head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # uvicorn sets it too
            except httptools.HttpParserError:
                self._refuse(self._parse_refusal)
                return
            else:
                return

    def _build_head_without_upgrade(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _start_waiting(self, part: Literal["head", "body"]) -> None:
        self._awaited_part, self._awaited_since, self._body_bytes = part, self.loop.time(), 0

    def _count_header_bytes(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES or self._header_count > MAX_HEADERS or len(self.url) > MAX_URL_BYTES:
            self._parse_refusal = HEADERS_TOO_LARGE
            raise HeadersTooLarge

    def _is_overdue(self, now: float, timeout_seconds: float) -> bool:
        if self._awaited_part is None:
            return False
        if self._awaited_part == "body" and (self.flow.read_paused or self.cycle.waiting_for_100_continue):
            self._start_waiting("body")  # the server does not read, so the client is not slow
            return False
        if now - self._awaited_since <= timeout_seconds:
            return False
        # After a response, a client has one period for the rest of a body that the service does not read.
        if self._awaited_part == "body" and self._body_bytes >= MIN_BODY_BYTES and not self.cycle.response_complete:
            self._start_waiting("body")
            return False
        return True

    def _refuse(self, refusal: Refusal) -> None:
        """Send the reason if no response has begun, and close the connection."""
        cycle = self.cycle
        is_idle = cycle is None or (cycle.response_complete and self._awaited_part == "head")
        if self.transport.is_closing():
            self.transport.abort()
        elif is_idle or not (cycle.response_started or self.pipeline):
            self.transport.write(_format_answer(*refusal))
        self.transport.close()


def _format_answer(status: int, code: str, detail: str) -> bytes:
    request_id = encode_id("req", generate_id())
    request = Request({"type": "http", "state": {"request_id": request_id}})
    reply = create_problem_response(
        request, status, code, detail, headers={"Connection": "close", "X-Request-Id": request_id}
    )
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    head += [b": ".join(header) for header in (*reply.raw_headers, *DEFAULT_HEADERS)]
    return b"\r\n".join([*head, b"", bytes(reply.body)])


class _ConnectionLimitedConfig(uvicorn.Config):
    """uvicorn configuration with the limiter that every connection of the server uses."""

    connections: ConnectionLimiter


class HttpServer(uvicorn.Server):
    """uvicorn server that closes connections of slow clients. The application writes the access log."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, *, descriptors: int | None = None) -> None:
        capacity = Capacity.from_descriptors(raise_descriptor_limit() if descriptors is None else descriptors)
        config = _ConnectionLimitedConfig(
            app,
            http=TimeoutProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_timeout_seconds,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
            lifespan="on",
            backlog=capacity.backlog,
        )
        proxies = TrustedProxies(config.forwarded_allow_ips)
        config.connections = ConnectionLimiter(capacity.connections, settings.max_connections_per_address, proxies)
        super().__init__(config)
        self._client_timeout_seconds = settings.client_timeout_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Limit the unsent bytes of listening sockets, whose options new connections inherit, and start the server."""
        for listening in sockets or ():
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Check every connection once per second."""
        if counter % TICKS_PER_CHECK == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, TimeoutProtocol):
                    connection.close_if_stalled(now, self._client_timeout_seconds)
        return await super().on_tick(counter)

"""uvicorn with limits for callers: how much the head of a request holds, and how long they may send and take nothing.

uvicorn's httptools protocol takes heads of any size and waits for ever for whoever has not been answered yet. Each
connection here knows what it waits for, and the server looks at all of them once a second: a timer for each would cost
more than all the looks.
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

from app.api.middleware import ALWAYS
from app.api.problems import problem
from app.cli.connections import Capacity, Connections, Idleness, TrustedProxies, raise_descriptor_limit
from app.ids import encode_id, new_id
from app.logging import get_logger
from app.settings import ServerSettings

logger = get_logger(__name__)

# The longest address that httptools takes apart, and as much again for headers.
MAX_URL_BYTES = 65_535
MAX_HEAD_BYTES = 128 * 1024
MAX_HEADERS = 100
# What a body must bring in the time that a caller has, as long as it is waited for.
LEAST_BODY_BYTES = 4 * 1024
# What the kernel holds of an answer beyond what is on its way: it would else take megabytes at a time, and a reader of
# some kilobytes a second would seem to take nothing for minutes.
MOST_UNSENT_BYTES = 128 * 1024
GRACE_SECONDS = 20
# uvicorn ticks ten times a second.
TICKS_PER_LOOK = 10

Refusal = tuple[int, str, str]
MALFORMED: Refusal = (400, "bad_request", "That is no HTTP request.")
TOO_LATE: Refusal = (408, "request_timeout", "The request took too long to arrive.")
TOO_LARGE: Refusal = (
    431,
    "headers_too_large",
    f"The address is longer than {MAX_URL_BYTES} bytes, or with the headers longer than {MAX_HEAD_BYTES}, or there are "
    f"more than {MAX_HEADERS} headers.",
)


TOO_MANY: Refusal = (
    429,
    "too_many_connections",
    "This address has too many connections, and all of them wait for answers: use fewer at once.",
)


class HeadTooLarge(Exception):
    """The head of a request is larger than anyone needs."""


class CarefulProtocol(HttpToolsProtocol):
    """A connection that knows what its caller owes: the head or the body of a request, or the taking of an answer."""

    _awaits: Literal["head", "body"] | None = "head"
    _since = 0.0
    # Of the head so far; of the body since ``_since``; and since the parser last gave something of a body, or a whole
    # request: what it is still holding is no more than that.
    _head_bytes = _headers = _body_bytes = _unread = 0
    _fault = MALFORMED
    _asks_upgrade = False
    # When something of an answer was taken last, and how much was left of it then.
    _taken_at, _left = 0.0, 0
    # All connections of the server; None for a server that does not count them.
    _others: Connections | None = None
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """The head of the first request is due."""
        super().connection_made(transport)
        self._await("head")
        self._taken_at = self._since
        self._others = getattr(self.config, "connections", None)
        self._address = self.client[0] if self.client else ""
        if self._others is not None and not self._others.add(self._address, self):
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another one."""
        if self._others is not None:
            self._others.discard(self._address, self)
        super().connection_lost(exc)

    @property
    def idleness(self) -> Idleness:
        """What the caller does, as ``Connections`` asks."""
        if self.cycle is None or self.cycle.response_complete:
            return "waiting" if self.cycle else "unused"
        return "sending" if self._awaits == "body" and not self.pipeline else "busy"

    @property
    def since(self) -> float:
        """When the caller began with that."""
        return self._since

    def drop(self) -> None:
        """Close the connection at once; the caller can come again."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """The first bytes after an answer begin a head, even where they are empty lines, which the parser skips."""
        if self._awaits is None and (self.cycle is None or self.cycle.response_complete):
            self._await("head")
        self._unread += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._unread > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request of a pipeline may begin while another is answered."""
        super().on_message_begin()
        self._await("head")
        self._head_bytes = self._headers = 0

    def on_url(self, url: bytes) -> None:
        """A piece of it. Raises HeadTooLarge."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of the head; those behind a body are left out, for they come after everything was checked."""
        if self._awaits == "head":
            self._headers += 1
            self._count(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """From now on it is the body that is due."""
        self._asks_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._asks_upgrade:
            return
        super().on_headers_complete()
        self._await("body")

    def on_body(self, body: bytes) -> None:
        """A piece of it."""
        self._unread = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Nothing is due until the answer is given."""
        if self._asks_upgrade:
            return
        self._unread = 0
        self._awaits = None
        super().on_message_complete()

    def resume_writing(self) -> None:
        """Most of what was waiting has been taken."""
        self._taken_at, self._left = self.loop.time(), self.transport.get_write_buffer_size()
        super().resume_writing()

    def look(self, now: float, patience: float) -> None:
        """End the connection where its caller owes something for longer than ``patience`` seconds."""
        left = self.transport.get_write_buffer_size()
        if not left or left < self._left:
            self._taken_at = now
        self._left = left
        if now - self._taken_at > patience:
            logger.info("connection.dropped", awaited="reader")
            self.transport.abort()
        elif self._owes(now, patience):
            logger.info("connection.dropped", awaited=self._awaits)
            self._refuse(TOO_LATE)

    def _parse(self, data: bytes) -> None:
        """What asks for an upgrade is a request like any other: Java's client asks every plain server for h2c.

        The parser takes such a head for the end of HTTP, and the body behind it for the next request. So a new one gets
        the head without that wish.
        """
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self._asks_upgrade:
                    return
                data = self._plain_head() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn makes it
            except httptools.HttpParserError:
                self._refuse(self._fault)
                return
            else:
                return

    def _plain_head(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _await(self, what: Literal["head", "body"]) -> None:
        self._awaits, self._since, self._body_bytes = what, self.loop.time(), 0

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES or self._headers > MAX_HEADERS or len(self.url) > MAX_URL_BYTES:
            self._fault = TOO_LARGE
            raise HeadTooLarge

    def _owes(self, now: float, patience: float) -> bool:
        if self._awaits is None:
            return False
        if self._awaits == "body" and (self.flow.read_paused or self.cycle.waiting_for_100_continue):
            self._await("body")  # it is us who do not read
            return False
        if now - self._since <= patience:
            return False
        # Who has been answered already is given this time, and no more, for the rest of a body that nobody reads.
        if self._awaits == "body" and self._body_bytes >= LEAST_BODY_BYTES and not self.cycle.response_complete:
            self._await("body")
            return False
        return True

    def _refuse(self, refusal: Refusal) -> None:
        """Say why where no answer has begun, and close the connection."""
        cycle = self.cycle
        idle = cycle is None or (cycle.response_complete and self._awaits == "head")
        if self.transport.is_closing():
            self.transport.abort()
        elif idle or not (cycle.response_started or self.pipeline):
            self.transport.write(_answer(*refusal))
        self.transport.close()


def _answer(status: int, code: str, detail: str) -> bytes:
    request_id = encode_id("req", new_id())
    request = Request({"type": "http", "state": {"request_id": request_id}})
    reply = problem(request, status, code, detail, headers={"Connection": "close", "X-Request-Id": request_id})
    head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    head += [b": ".join(header) for header in (*reply.raw_headers, *ALWAYS)]
    return b"\r\n".join([*head, b"", bytes(reply.body)])


class _Config(uvicorn.Config):
    """uvicorn's, with the connections that the protocol counts."""

    connections: Connections


class HttpServer(uvicorn.Server):
    """uvicorn's, with an eye on slow callers; the application writes the access log."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, *, descriptors: int | None = None) -> None:
        capacity = Capacity.of(raise_descriptor_limit() if descriptors is None else descriptors)
        config = _Config(
            app,
            http=CarefulProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=GRACE_SECONDS,
            lifespan="on",
            backlog=capacity.backlog,
        )
        proxies = TrustedProxies(config.forwarded_allow_ips)
        config.connections = Connections(capacity.connections, settings.connections_per_address, proxies)
        super().__init__(config)
        self._patience = settings.client_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Connections have their options from the socket that they come in by."""
        for listening in sockets or ():
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT_BYTES)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look at every connection once a second."""
        if counter % TICKS_PER_LOOK == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, CarefulProtocol):
                    connection.look(now, self._patience)
        return await super().on_tick(counter)

"""Around every request: its id, the access log, what every reply says, the limit of its body, and the last handler."""

import re
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.json_limits import LIMIT, MAX_JSON_BYTES, JsonCount
from app.api.problems import on_http_error, on_unexpected
from app.errors import TooLarge
from app.ids import encode_id, new_id
from app.logging import bind, get_logger

logger = get_logger(__name__)

# In the access log where the caller went away before the answer, as nginx says it.
GONE = 499
DOORS = ("/v1", "/openai/v1")
_SANE_ID = re.compile(r"[A-Za-z0-9._~+/=-]{1,128}")
# These routes read the body themselves, after their checks, with a limit of their own.
_STREAMED = re.compile(r"(/v1/(knowledge-bases/[^/]+/(documents(/batch)?|import)|preview)|/openai/v1/files)/?")
_BYTES = f"The body is larger than {MAX_JSON_BYTES} bytes."
# What every reply says, unless its route says otherwise: it is no page, belongs in no frame and in no cache.
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class RequestMiddleware:
    """The outermost, for every reply there is; pure ASGI, as is the other, so that streams stay streams."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bind the id, add the headers, log the outcome."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 500
        begun = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message["headers"])
                names = {name for name, _ in given}
                given.append((b"x-request-id", request_id.encode("ascii")))
                message["headers"] = given + [header for header in ALWAYS if header[0] not in names]
            await send(message)

        with bind(request_id=request_id):
            try:
                await self.app(scope, receive, send_with_headers)
            except ClientDisconnect:
                status = GONE
            finally:
                milliseconds = round((time.perf_counter() - begun) * 1000, 1)
                logger.info(
                    "request",
                    method=scope["method"],
                    route=_route(scope),
                    status=status,
                    milliseconds=milliseconds,
                )


class GuardMiddleware:
    """Refuses bodies that are too large, and answers where nothing else does; within CORS, so that pages see both."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The last handler: nothing leaves as a traceback."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def noticed(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._limited(scope, receive, noticed)
        except ClientDisconnect:
            raise
        except Exception as exc:
            if started:
                raise
            response = await on_unexpected(Request(scope), exc)
            await response(scope, receive, send)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and _STREAMED.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > MAX_JSON_BYTES:
            response = await on_http_error(Request(scope), _too_large(_BYTES))
            await response(scope, receive, send)
            return
        if declared.isdecimal() and int(declared) <= LIMIT.names:  # as most are: it cannot hold so much
            await self.app(scope, receive, send)
            return
        seen, count = 0, JsonCount(LIMIT)

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            piece = message.get("body", b"")
            seen += len(piece)
            if seen > MAX_JSON_BYTES:
                raise _too_large(_BYTES)
            try:
                count.feed(piece)
            except TooLarge as exc:
                raise _too_large(exc.message) from None
            return message

        await self.app(scope, counted, send)


def _too_large(detail: str) -> HTTPException:
    """As the framework has it: of what else is raised while it reads a body, it makes an error of its own."""
    return HTTPException(413, detail, {"Connection": "close"})


def _route(scope: Scope) -> str | None:
    """The matched route's template, never the path itself; a router's prefix is not part of its routes' templates."""
    template: str | None = getattr(scope.get("route"), "path", None)
    door = next((door for door in DOORS if scope["path"].startswith(f"{door}/")), "")
    return template if template is None or template.startswith(door) else f"{door}{template}"


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else encode_id("req", new_id())

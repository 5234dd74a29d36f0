"""Middleware of every request: request id, access log, default headers, body limits and the last error handler."""

import re
import time

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.http.content_encoding import ACCEPTED_ENCODINGS, decode_body, find_unsupported_encoding
from app.api.http.json_limits import DEFAULT_JSON_LIMIT, MAX_JSON_BYTES, JsonValueCounter
from app.api.http.problems import handle_http_error, handle_unexpected_error
from app.errors import TooLargeError
from app.ids import encode_id, generate_id
from app.logging import bind_context, get_logger

logger = get_logger(__name__)

# Status in the access log if the caller closed the connection before the response; nginx uses the same number.
CLIENT_CLOSED_REQUEST_STATUS = 499
API_PREFIXES = ("/v1", "/openai/v1")
_VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._~+/=-]{1,128}")
# These routes read the body themselves, after their checks, and have separate limits.
_STREAMED_PATHS = re.compile(r"(/v1/(knowledge-bases/[^/]+/(documents(/batch)?|import)|preview)|/openai/v1/files)/?")
_TOO_LARGE_MESSAGE = f"The body is larger than {MAX_JSON_BYTES} bytes."
# Headers of every response, unless its route sets them: no type guessing, no referrer, no framing, no caching.
DEFAULT_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class RequestMiddleware:
    """Outermost middleware: request id, default headers and access log. It is pure ASGI, so it buffers no stream."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bind the request id to the log, add the default headers, and log the outcome.

        Args:
            scope: ASGI scope; ``state`` gets the request id.
            receive: ASGI receive function.
            send: ASGI send function.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _resolve_request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 500
        started_at = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message["headers"])
                names = {name for name, _ in headers}
                headers.append((b"x-request-id", request_id.encode("ascii")))
                message["headers"] = headers + [header for header in DEFAULT_HEADERS if header[0] not in names]
            await send(message)

        with bind_context(request_id=request_id):
            try:
                await self.app(scope, receive, send_with_headers)
            except ClientDisconnect:
                status = CLIENT_CLOSED_REQUEST_STATUS
            finally:
                milliseconds = round((time.perf_counter() - started_at) * 1000, 1)
                logger.info(
                    "request",
                    method=scope["method"],
                    route=_find_route_template(scope),
                    status=status,
                    milliseconds=milliseconds,
                )


class BodyLimitMiddleware:
    """Decoding and limits of bodies, and last error handler.

    It runs inside the CORS middleware, so that web pages can read its errors.

    It is pure ASGI, so that it buffers no stream.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, and respond with an internal error if it raises an exception.

        Args:
            scope: ASGI scope.
            receive: ASGI receive function.
            send: ASGI send function.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_started = False

        async def send_tracked(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            if (encoding := find_unsupported_encoding(scope)) is not None:
                response = await handle_http_error(Request(scope), _create_encoding_error(encoding))
                await response(scope, receive, send_tracked)
                return
            await self._call_with_body_limit(scope, decode_body(scope, receive), send_tracked)
        except ClientDisconnect:
            raise
        except Exception as exc:
            if is_started:
                raise
            response = await handle_unexpected_error(Request(scope), exc)
            await response(scope, receive, send)

    async def _call_with_body_limit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and _STREAMED_PATHS.fullmatch(scope["path"]):
            await self.app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > MAX_JSON_BYTES:
            response = await handle_http_error(Request(scope), _create_too_large_error(_TOO_LARGE_MESSAGE))
            await response(scope, receive, send)
            return
        if (
            declared.isdecimal() and int(declared) <= DEFAULT_JSON_LIMIT.max_names
        ):  # most bodies: with so few bytes, the body cannot exceed the limits of values and names
            await self.app(scope, receive, send)
            return
        received_bytes, counter = 0, JsonValueCounter(DEFAULT_JSON_LIMIT)

        async def receive_counted() -> Message:
            nonlocal received_bytes
            message = await receive()
            piece = message.get("body", b"")
            received_bytes += len(piece)
            if received_bytes > MAX_JSON_BYTES:
                raise _create_too_large_error(_TOO_LARGE_MESSAGE)
            try:
                counter.update(piece)
            except TooLargeError as exc:
                raise _create_too_large_error(exc.message) from None
            return message

        await self.app(scope, receive_counted, send)


def _create_too_large_error(detail: str) -> HTTPException:
    """Create an ``HTTPException``; FastAPI responds with 400 to any other exception while it reads a body."""
    return HTTPException(413, detail, {"Connection": "close"})


def _create_encoding_error(encoding: str) -> HTTPException:
    detail = f"The service cannot decode the content encoding {encoding[:40]!r}. Send the body as gzip or uncompressed."
    return HTTPException(415, detail, {"Accept-Encoding": ACCEPTED_ENCODINGS})


def _find_route_template(scope: Scope) -> str | None:
    """Return the path template of the matched route, never the path itself.

    The template lacks the prefix of the route's router, so the prefix is added.
    """
    template: str | None = getattr(scope.get("route"), "path", None)
    api_prefix = next((api_prefix for api_prefix in API_PREFIXES if scope["path"].startswith(f"{api_prefix}/")), "")
    return template if template is None or template.startswith(api_prefix) else f"{api_prefix}{template}"


def _resolve_request_id(scope: Scope) -> str:
    requested_id = Headers(scope=scope).get("x-request-id", "")
    return requested_id if _VALID_REQUEST_ID.fullmatch(requested_id) else encode_id("req", generate_id())

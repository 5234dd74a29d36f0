"""Route of MCP. It authenticates the caller and reads the body before the MCP SDK handles the message."""

from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.dependencies import AuthenticatedRoute, CurrentReader
from app.api.http.problems import PROBLEM_RESPONSE
from app.api.mcp.messages import MAX_BATCH_MESSAGES, BatchApp, InvalidMessage, parse_messages
from app.errors import ForbiddenError, TooLargeError, UnsupportedMediaTypeError

MAX_MESSAGE_BYTES = 1024 * 1024
JSON_MEDIA_TYPE = "application/json"
router = APIRouter(tags=["mcp"], route_class=AuthenticatedRoute)


class OriginNotAllowed(ForbiddenError):
    """Web pages of this origin may not call MCP. Add the origin to CARREL_CORS_ORIGINS to allow it."""

    code = "origin_not_allowed"


class NotJson(UnsupportedMediaTypeError):
    """An MCP message must be JSON. Send it with the content type application/json."""


@dataclass(frozen=True, slots=True)
class McpTransport:
    """Application of the MCP SDK, with the origins of web pages that may send messages."""

    app: ASGIApp
    allowed_origins: Collection[str]

    def check_request(self, request: Request) -> None:
        """Check origin and content type of a message.

        A browser sends the origin of the web page with each POST. The check therefore also refuses pages that use DNS
        rebinding: pages whose host name resolves to this service.

        Args:
            request: The request.

        Raises:
            OriginNotAllowed: The origin of the web page is not allowed.
            NotJson: The content type is not JSON.
        """
        origin = request.headers.get("origin")
        if origin is not None and not {origin, "*"} & set(self.allowed_origins):
            raise OriginNotAllowed
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_MEDIA_TYPE:
            raise NotJson


@asynccontextmanager
async def mcp_lifespan(allowed_origins: Collection[str]) -> AsyncIterator[McpTransport]:
    """Run the MCP server while the block runs, and yield its transport."""
    # Imported here, because the SDK takes 0.8 s and 23 MB, and workers and other commands import this module too.
    from app.api.mcp.server import run_server

    async with run_server(max_bytes=MAX_MESSAGE_BYTES) as app:
        yield McpTransport(app, allowed_origins)


class ForwardedResponse(Response):
    """Response of the MCP SDK to a body. The SDK's work is cancelled if the caller closes the connection."""

    def __init__(self, app: ASGIApp, body: bytes) -> None:
        super().__init__()
        self.app = app
        self.request_body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application of the SDK, and send its response.

        Args:
            scope: ASGI scope.
            receive: ASGI receive function of the request; only a disconnect is read from it.
            send: ASGI send function.

        Raises:
            ClientDisconnect: The caller closed the connection before the end of the response.
        """
        pending = deque[Message]([{"type": "http.request", "body": self.request_body, "more_body": False}])
        is_answered = is_disconnected = False

        async def send_tracked(message: Message) -> None:
            nonlocal is_answered
            # Set before sending: the server reports a disconnect as soon as the whole response is sent.
            is_answered = is_answered or (
                message["type"] == "http.response.body" and not message.get("more_body", False)
            )
            await send(message)

        async def receive_body() -> Message:
            if not pending:
                await anyio.sleep_forever()
            return pending.popleft()

        async def watch_disconnect() -> None:
            nonlocal is_disconnected
            while (await receive())["type"] != "http.disconnect":
                pass
            if not is_answered:
                is_disconnected = True
                task_group.cancel_scope.cancel()

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(watch_disconnect)
            await self.app(scope, receive_body, send_tracked)
            task_group.cancel_scope.cancel()
        if is_disconnected:
            raise ClientDisconnect


async def read_body(request: Request) -> bytes:
    """Read the body of a message.

    Args:
        request: The request.

    Raises:
        TooLargeError: The body is larger than ``MAX_MESSAGE_BYTES``.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_MESSAGE_BYTES:
            raise TooLargeError(f"A message may have at most {MAX_MESSAGE_BYTES} bytes.")
    return bytes(body)


MESSAGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0", "description": "Version of JSON-RPC."},
        "id": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "description": "Id of the request, repeated in the response. A notification has none.",
            "examples": [1],
        },
        "method": {
            "type": "string",
            "description": "Method of MCP.",
            "examples": ["tools/list", "tools/call", "resources/list", "resources/read"],
        },
        "params": {"type": "object", "description": "Parameters of the method.", "examples": [{}]},
    },
}


BODY_SCHEMA: dict[str, Any] = {
    "anyOf": [
        MESSAGE_SCHEMA,
        {
            "type": "array",
            "items": MESSAGE_SCHEMA,
            "minItems": 1,
            "maxItems": MAX_BATCH_MESSAGES,
            "description": "Batch of messages, up to the version 2025-03-26.",
        },
    ]
}


ERROR_EXAMPLE = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "The message is not valid."}}
REPLY_SCHEMA = {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}
REPLY_EXAMPLE = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}


def _describe_error(text: str) -> dict[str, Any]:
    return {"description": text, **PROBLEM_RESPONSE}


def _describe_rpc_error(text: str) -> dict[str, Any]:
    return {"description": text, "content": {JSON_MEDIA_TYPE: {"schema": {"type": "object"}, "example": ERROR_EXAMPLE}}}


@router.post(
    "/mcp",
    summary="Send an MCP message",
    operation_id="send_mcp_message",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {JSON_MEDIA_TYPE: {"schema": BODY_SCHEMA}}}},
    responses={
        200: {
            "description": "The JSON-RPC reply, or the list of replies to a batch",
            "content": {JSON_MEDIA_TYPE: {"schema": REPLY_SCHEMA, "example": REPLY_EXAMPLE}},
        },
        202: {"description": "The notification was accepted"},
        400: _describe_rpc_error("The body is not a JSON-RPC message, or its protocol version is not supported"),
        401: _describe_error("The key is missing or not valid"),
        403: _describe_error("The origin of the web page may not call MCP"),
        404: _describe_rpc_error("The method does not exist"),
        406: _describe_rpc_error("The client does not accept JSON"),
        413: _describe_error("The body is too large"),
        415: _describe_error("The body is not JSON"),
        422: _describe_error("The request is not valid"),
        429: _describe_error("Too many failed attempts to sign in; try again after Retry-After"),
        431: _describe_error("The address or a header is too long"),
        503: _describe_error("A dependency does not answer; try again"),
    },
)
async def handle_message(request: Request, _tenant: CurrentReader) -> Response:
    """Handle one message of the Model Context Protocol, versions 2024-11-05 and later. Up to the version 2025-03-26, a
    body may also be a batch, a list of at most 50 messages.

    The transport is streamable HTTP without sessions, so any replica can answer any message. The tools are `search`,
    `fetch`, `search_knowledge` and `list_knowledge_bases`. The resources are documents as text.
    """
    transport: McpTransport = request.app.state.mcp
    transport.check_request(request)
    body = await read_body(request)
    try:
        messages = parse_messages(body, request.headers.get("mcp-protocol-version"))
    except InvalidMessage as exc:
        return JSONResponse(exc.reply, 400)
    if isinstance(messages, list):
        return ForwardedResponse(BatchApp(transport.app, messages), b"")
    return ForwardedResponse(transport.app, body)

"""The one route: who calls is known and the body is read before the SDK is given anything."""

from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.dependencies import CurrentReader, GuardedRoute
from app.api.problems import PROBLEM
from app.errors import Forbidden, TooLarge, Unsupported

MOST_BYTES = 1024 * 1024
JSON = "application/json"
router = APIRouter(tags=["mcp"], route_class=GuardedRoute)


class ForeignOrigin(Forbidden):
    """A page of this origin may not call; CARREL_CORS_ORIGINS names those that may."""

    code = "foreign_origin"


class NotJson(Unsupported):
    """A message is JSON: send it as application/json."""


@dataclass(frozen=True, slots=True)
class Door:
    """What serves a message, and the pages that may send one."""

    app: ASGIApp
    origins: Collection[str]

    def admit(self, request: Request) -> None:
        """Raises ForeignOrigin, NotJson.

        A browser names the page's origin with every POST. So a page whose name was made to lead here (DNS rebinding)
        is refused, whatever host it names.
        """
        origin = request.headers.get("origin")
        if origin is not None and not {origin, "*"} & set(self.origins):
            raise ForeignOrigin
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise NotJson


@asynccontextmanager
async def open_door(origins: Collection[str]) -> AsyncIterator[Door]:
    """Serves until the block ends."""
    # Here, for the SDK takes 0.8 s and 23 MB: workers and other commands import this module too.
    from app.api.mcp.server import serving

    async with serving(most_bytes=MOST_BYTES) as app:
        yield Door(app, origins)


class Relayed(Response):
    """What the SDK answers to this body; its work ends when the caller goes away."""

    def __init__(self, app: ASGIApp, body: bytes) -> None:
        super().__init__()
        self.app = app
        self.message = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ClientDisconnect."""
        rest = deque[Message]([{"type": "http.request", "body": self.message, "more_body": False}])
        answered = gone = False

        async def noticed(message: Message) -> None:
            nonlocal answered
            # First: the server tells of a caller who goes away as soon as the whole reply is sent.
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        async def again() -> Message:
            if not rest:
                await anyio.sleep_forever()
            return rest.popleft()

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass
            if not answered:
                gone = True
                work.cancel_scope.cancel()

        async with anyio.create_task_group() as work:
            work.start_soon(watch)
            await self.app(scope, again, noticed)
            work.cancel_scope.cancel()
        if gone:
            raise ClientDisconnect


async def read_body(request: Request) -> bytes:
    """Raises TooLarge."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise TooLarge(f"A message has at most {MOST_BYTES} bytes.")
    return bytes(body)


MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "method": {"type": "string", "examples": ["tools/list", "tools/call", "resources/list", "resources/read"]},
        "params": {"type": "object"},
    },
}


def _told(text: str) -> dict[str, Any]:
    return {"description": text, **PROBLEM}


@router.post(
    "/mcp",
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": MESSAGE}}}},
    responses={
        200: {"description": "The JSON-RPC reply", "content": {JSON: {"schema": {"type": "object"}}}},
        202: {"description": "A notification was taken"},
        400: {"description": "No JSON-RPC message, or of a protocol version that is not spoken"},
        401: _told("No key, or one that is not valid"),
        403: _told("From a page whose origin may not call"),
        404: {"description": "No such method"},
        406: {"description": "The client does not accept JSON"},
        413: _told("Too large"),
        415: _told("Not JSON"),
        422: _told("Not valid"),
        429: _told("Too many failed attempts to sign in; try again after Retry-After"),
        431: _told("The address or a header is too long"),
        503: _told("A dependency is down; try again"),
    },
)
async def message(request: Request, _tenant: CurrentReader) -> Response:
    """One message of the Model Context Protocol (streamable HTTP, stateless; protocol versions 2024-11-05 and later).

    Tools: `search` and `fetch`, as assistants ask for them, `search_knowledge` and `list_knowledge_bases`. Resources:
    documents as text. The key alone says whose they are; there are no sessions, so any replica answers any message.
    """
    door: Door = request.app.state.mcp
    door.admit(request)
    return Relayed(door.app, await read_body(request))

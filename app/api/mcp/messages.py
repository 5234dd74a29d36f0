"""Messages of a request body: one JSON-RPC message, or a batch of them, and the replies to invalid ones.

MCP allows batches up to the version 2025-03-26, which a request without the version header has. Later versions removed
them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
MAX_BATCH_MESSAGES = 50
BATCH_VERSIONS = frozenset({None, "2024-11-05", "2025-03-26"})
_INVALID = "The message is not a JSON-RPC 2.0 request, notification or response. Check jsonrpc, id, method and params."


class InvalidMessage(Exception):
    """A message is not valid; ``reply`` is the JSON-RPC error."""

    def __init__(self, code: int, message: str, message_id: int | str | None = None) -> None:
        super().__init__(message)
        self.reply = {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": message}}


def parse_messages(body: bytes, version: str | None) -> Any:
    """Parse a request body and check the form of a single message. Messages of a batch are checked one by one later.

    Args:
        body: The body.
        version: Version of the protocol in the header; None without the header.

    Returns:
        The message, or the list of the messages of a batch.

    Raises:
        InvalidMessage: The body is not JSON or not a message, or the version has no batches.
    """
    try:
        parsed = from_json(body)
    except ValueError:
        raise InvalidMessage(PARSE_ERROR, "The body is not valid JSON.") from None
    if not isinstance(parsed, list):
        check_message(parsed)
        return parsed
    if version not in BATCH_VERSIONS:
        raise InvalidMessage(INVALID_REQUEST, f"MCP {version} has no batches. Send one message in each request.")
    if not 0 < len(parsed) <= MAX_BATCH_MESSAGES:
        raise InvalidMessage(INVALID_REQUEST, f"A batch must have 1 to {MAX_BATCH_MESSAGES} messages.")
    return parsed


def check_message(message: Any) -> None:
    """Raise InvalidMessage if a value does not have the form of a JSON-RPC message."""
    if not isinstance(message, dict):
        raise InvalidMessage(INVALID_REQUEST, _INVALID)
    message_id = message.get("id")
    has_valid_id = isinstance(message_id, int | str) and not isinstance(message_id, bool)
    reply_id = message_id if has_valid_id else None
    is_valid = message.get("jsonrpc") == "2.0" and (has_valid_id or "id" not in message)
    if "method" in message:
        is_valid = is_valid and isinstance(message["method"], str) and isinstance(message.get("params", {}), dict)
    else:
        is_valid = is_valid and has_valid_id and ("result" in message) != ("error" in message)
    if not is_valid:
        raise InvalidMessage(INVALID_REQUEST, _INVALID, reply_id)


@dataclass(frozen=True, slots=True)
class BatchApp:
    """ASGI application that passes each message of a batch to another one, and replies to all in one response."""

    app: ASGIApp
    messages: Sequence[Any]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the replies as a JSON array; without a reply, respond with 202.

        Args:
            scope: ASGI scope.
            send: ASGI send function.
        """
        replies = [reply for message in self.messages if (reply := await self._handle(scope, message)) is not None]
        body = json.dumps(replies, ensure_ascii=False, separators=(",", ":")).encode() if replies else b""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200 if replies else 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _handle(self, scope: Scope, message: Any) -> Mapping[str, Any] | None:
        """Return the reply to one message; None for a notification."""
        try:
            check_message(message)
            if message.get("method") == "initialize":
                raise InvalidMessage(INVALID_REQUEST, "A batch must not contain initialize.", message.get("id"))
        except InvalidMessage as exc:
            return exc.reply
        request = {"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}
        parts: list[bytes] = []

        async def receive() -> Message:
            return request

        async def collect(event: Message) -> None:
            parts.append(event.get("body", b""))

        await self.app(dict(scope), receive, collect)
        reply = b"".join(parts)
        parsed: Mapping[str, Any] | None = from_json(reply) if reply else None
        return parsed

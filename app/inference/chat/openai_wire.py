"""Build requests to ``/chat/completions`` in the dialect of an endpoint, and parse and check the replies."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from app.inference.chat import ChatMessage, ChatTokens
from app.inference.chat.event_stream import EventStreamParser
from app.inference.chat.structured_output import INSTRUCTION_SEPARATOR, build_instruction, build_strict_schema
from app.inference.circuit_breaker import EndpointFailed

MAX_TOKENS = 10_000_000
DONE_EVENT = b"[DONE]"


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """Request format of an endpoint. The first request uses the defaults; ``find_fallback`` returns the next format."""

    schema: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    has_stream_usage: bool = True


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model, independent of the dialect of the endpoint."""

    messages: Sequence[ChatMessage]
    max_tokens: int
    shape: type[BaseModel] | None = None
    is_streamed: bool = False

    def build_body(self, dialect: ChatDialect) -> dict[str, Any]:
        """Return the body of the request without the model's name."""
        messages = self.messages
        body: dict[str, Any] = {dialect.limit_field: self.max_tokens}
        if self.shape is not None:
            # The prompt contains the schema too, because many servers ignore the response format.
            messages = _add_instruction(messages, build_instruction(self.shape))
            body |= _build_response_format(self.shape, dialect)
        if self.is_streamed:
            body["stream"] = True
            if dialect.has_stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body | {
            "messages": [{"role": message.role, "content": replace_surrogates(message.content)} for message in messages]
        }

    def find_fallback(self, dialect: ChatDialect, param: str | None) -> ChatDialect | None:
        """Return the dialect to try after the endpoint has refused ``dialect``, or None.

        ``param`` is the parameter that the error of the endpoint names, if any.
        """
        if param == "max_tokens" and dialect.limit_field == "max_tokens":
            return replace(dialect, limit_field="max_completion_tokens")
        if self.shape is not None and dialect.schema != "prompt":
            return replace(dialect, schema="json_object" if dialect.schema == "json_schema" else "prompt")
        if self.is_streamed and dialect.has_stream_usage:
            return replace(dialect, has_stream_usage=False)
        return None


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """Complete reply, or one event of a streamed reply."""

    text: str = ""
    tokens: ChatTokens | None = None
    finish_reason: str | None = None
    is_refused: bool = False


class ResponseParser:
    """Incremental parser of a reply, which is one JSON object or a stream of events."""

    def __init__(self, *, is_event_stream: bool, max_bytes: int) -> None:
        """Create a parser that reads up to ``max_bytes`` bytes."""
        self.tokens = ChatTokens()
        self.is_truncated = self.is_refused = self.has_text = self.is_done = False
        self._events = EventStreamParser() if is_event_stream else None
        self._buffer = bytearray()
        self._remaining_bytes = max_bytes
        self._is_finished = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the text of the events that this piece completes. Raises EndpointFailed."""
        self._remaining_bytes -= len(piece)
        if self._remaining_bytes < 0:
            raise EndpointFailed("the answer is too long")
        if self._events is None:
            self._buffer += piece
            return
        for data in self._events.feed(piece):
            self.is_done = self.is_done or data == DONE_EVENT
            if not self.is_done:
                yield from self._apply(_parse_chunk(_decode_json(data), "delta"))

    def finish(self) -> Iterator[str]:
        """Yield the remaining text after the last piece. Raises EndpointFailed for an incomplete reply."""
        if self._events is None:
            payload = _decode_json(self._buffer)
            if not _get_choices(payload):
                raise EndpointFailed("the answer has an unknown format")
            yield from self._apply(_parse_chunk(payload, "message"))
        elif not self.is_done and not self._is_finished:
            raise EndpointFailed("the answer is incomplete")

    def _apply(self, chunk: StreamChunk) -> Iterator[str]:
        self.tokens = chunk.tokens or self.tokens
        self.is_refused = self.is_refused or chunk.is_refused
        self.is_truncated = self.is_truncated or chunk.finish_reason == "length"
        self._is_finished = self._is_finished or chunk.finish_reason is not None
        if chunk.text:
            self.has_text = True
            yield chunk.text


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can contain but UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _build_response_format(shape: type[BaseModel], dialect: ChatDialect) -> dict[str, Any]:
    if dialect.schema == "json_schema":
        named_schema = {"name": shape.__name__, "strict": True, "schema": build_strict_schema(shape)}
        return {"response_format": {"type": "json_schema", "json_schema": named_schema}}
    return {"response_format": {"type": "json_object"}} if dialect.schema == "json_object" else {}


def _add_instruction(messages: Sequence[ChatMessage], text: str) -> Sequence[ChatMessage]:
    """Add an instruction to the first message: some chat templates accept only one system message, at the start."""
    first = messages[0] if messages else None
    if first is not None and first.role == "system":
        return [ChatMessage("system", first.content + INSTRUCTION_SEPARATOR + text), *messages[1:]]
    return [ChatMessage("system", text), *messages]


def _decode_json(data: bytes | bytearray) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise EndpointFailed("the answer is not JSON") from exc


def _get_choices(payload: Any) -> list[Any]:
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _parse_chunk(payload: Any, key: str) -> StreamChunk:
    if not isinstance(payload, dict) or payload.get("error"):
        raise EndpointFailed("the answer has an unknown format")
    tokens = _parse_tokens(payload.get("usage"))
    choices = _get_choices(payload)
    if not choices:  # the event with the token usage has no choices
        return StreamChunk(tokens=tokens)
    choice = choices[0]
    message = choice.get(key) if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict | None) or not isinstance(content, str | None) or not isinstance(choice, dict):
        raise EndpointFailed("the answer has an unknown format")
    finish_reason = choice.get("finish_reason")
    is_refused = bool(message and message.get("refusal")) or finish_reason == "content_filter"
    return StreamChunk(
        replace_surrogates(content or ""), tokens, finish_reason if isinstance(finish_reason, str) else None, is_refused
    )


def _parse_tokens(usage: Any) -> ChatTokens | None:
    if not isinstance(usage, dict):
        return None
    return ChatTokens(_parse_count(usage.get("prompt_tokens")), _parse_count(usage.get("completion_tokens")))


def _parse_count(value: Any) -> int:
    return value if type(value) is int and 0 < value < MAX_TOKENS else 0

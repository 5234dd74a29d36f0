"""Requests to ``/chat/completions`` in the words that an endpoint takes, and its replies, checked."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel

from app.inference.breaker import EndpointFailed
from app.inference.chat import ChatMessage, ChatTokens
from app.inference.event_stream import EventStream
from app.inference.structured import strict_schema

INSTRUCTION = "Answer with one JSON object and nothing else. It must be valid against this JSON Schema:\n"
MOST_TOKENS = 10_000_000
DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an endpoint understands; the beginning is what the newest ones do."""

    schema: Literal["json_schema", "json_object", "prompt"] = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_usage: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a model, whatever its dialect."""

    messages: Sequence[ChatMessage]
    max_tokens: int
    shape: type[BaseModel] | None = None
    streams: bool = False

    def body(self, dialect: Dialect) -> dict[str, Any]:
        """The request, without the model's name."""
        messages = self.messages
        body: dict[str, Any] = {dialect.limit: self.max_tokens}
        if self.shape is not None:
            # In words too: many servers take a format without heeding it, and a grammar alone explains nothing.
            messages = _instructed(messages, INSTRUCTION + json.dumps(strict_schema(self.shape)))
            body |= _format(self.shape, dialect)
        if self.streams:
            body["stream"] = True
            if dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body | {"messages": [{"role": each.role, "content": storable(each.content)} for each in messages]}

    def simpler(self, dialect: Dialect, param: str | None) -> Dialect | None:
        """What to try next when the endpoint refuses the request; ``param`` is what it blames, if anything."""
        if param == "max_tokens" and dialect.limit == "max_tokens":
            return replace(dialect, limit="max_completion_tokens")
        if self.shape is not None and dialect.schema != "prompt":
            return replace(dialect, schema="json_object" if dialect.schema == "json_schema" else "prompt")
        if self.streams and dialect.stream_usage:
            return replace(dialect, stream_usage=False)
        return None


@dataclass(frozen=True, slots=True)
class Part:
    """A reply, or one event of it."""

    text: str = ""
    tokens: ChatTokens | None = None
    finish: str | None = None
    refused: bool = False


class ReplyReader:
    """A reply as its bytes arrive: one JSON object, or events. Nothing is believed before it has been checked."""

    def __init__(self, *, events: bool, most: int) -> None:
        """``most`` bytes are read."""
        self.tokens = ChatTokens()
        self.cut_off = self.refused = self.begun = self.done = False
        self._events = EventStream() if events else None
        self._whole = bytearray()
        self._most = most
        self._finished = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """The text that this piece completes. Raises EndpointFailed."""
        self._most -= len(piece)
        if self._most < 0:
            raise EndpointFailed("it is too long")
        if self._events is None:
            self._whole += piece
            return
        for data in self._events.feed(piece):
            self.done = self.done or data == DONE
            if not self.done:
                yield from self._take(_part(_decoded(data), "delta"))

    def end(self) -> Iterator[str]:
        """The rest, when there is no more. Raises EndpointFailed."""
        if self._events is None:
            payload = _decoded(self._whole)
            if not _choices(payload):
                raise EndpointFailed("it is no answer")
            yield from self._take(_part(payload, "message"))
        elif not self.done and not self._finished:
            raise EndpointFailed("it breaks off")

    def _take(self, part: Part) -> Iterator[str]:
        self.tokens = part.tokens or self.tokens
        self.refused = self.refused or part.refused
        self.cut_off = self.cut_off or part.finish == "length"
        self._finished = self._finished or part.finish is not None
        if part.text:
            self.begun = True
            yield part.text


def storable(text: str) -> str:
    """Without half characters, which an escape can bring in and nobody can encode."""
    return text.encode("utf-8", "replace").decode()


def _format(shape: type[BaseModel], dialect: Dialect) -> dict[str, Any]:
    if dialect.schema == "json_schema":
        named = {"name": shape.__name__, "strict": True, "schema": strict_schema(shape)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if dialect.schema == "json_object" else {}


def _instructed(messages: Sequence[ChatMessage], text: str) -> Sequence[ChatMessage]:
    """In the first message: some chat templates know a system message nowhere else, and only one."""
    first = messages[0] if messages else None
    if first is not None and first.role == "system":
        return [ChatMessage("system", f"{first.content}\n\n{text}"), *messages[1:]]
    return [ChatMessage("system", text), *messages]


def _decoded(data: bytes | bytearray) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise EndpointFailed("it is no JSON") from exc


def _choices(payload: Any) -> list[Any]:
    choices = payload.get("choices") if isinstance(payload, dict) else None
    return choices if isinstance(choices, list) else []


def _part(payload: Any, key: str) -> Part:
    if not isinstance(payload, dict) or payload.get("error"):
        raise EndpointFailed("it is no answer")
    tokens = _tokens(payload.get("usage"))
    choices = _choices(payload)
    if not choices:  # as the event with the usage
        return Part(tokens=tokens)
    choice = choices[0]
    message = choice.get(key) if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict | None) or not isinstance(content, str | None) or not isinstance(choice, dict):
        raise EndpointFailed("it is no answer")
    finish = choice.get("finish_reason")
    refused = bool(message and message.get("refusal")) or finish == "content_filter"
    return Part(storable(content or ""), tokens, finish if isinstance(finish, str) else None, refused)


def _tokens(usage: Any) -> ChatTokens | None:
    if not isinstance(usage, dict):
        return None
    return ChatTokens(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < MOST_TOKENS else 0

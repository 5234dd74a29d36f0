"""Chat model behind an OpenAI-compatible endpoint: calls have hard time and size limits, and replies are checked."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx2
from openai import APIError, APIStatusError

from app.inference.chat import (
    ChatMessage,
    ChatStream,
    ChatUnavailable,
    Completion,
    StructuredCompletion,
)
from app.inference.chat.openai_wire import ChatDialect, ChatRequest, ResponseParser
from app.inference.chat.structured_output import Shape, UnparseableOutput, parse_structured_output
from app.inference.circuit_breaker import CircuitBreaker, EndpointFailed
from app.inference.openai_client import build_headers, create_openai_client, is_refusal, to_endpoint_failure
from app.logging import get_logger

logger = get_logger(__name__)

IDLE_TIMEOUT_SECONDS = 20.0
"""Timeout between two pieces. The first piece may take as long as the call, because a model may reason before it."""

FIRST_DELAY_SECONDS = 0.1
MIN_RETRY_SECONDS = 0.5
"""Minimum time that a retry needs to be worth its cost."""

HANG_SHARE = 0.8
"""Share of the timeout after which a cancelled call counts as a failure of the endpoint."""

GRACE_SECONDS = 0.3
"""Timeouts up to this length do not count as failures of the endpoint."""

DRAIN_TIMEOUT_SECONDS = 0.1
"""Time to wait for the end of a stream after its last event, so that the connection can be reused."""
BASE_BYTES = 100_000
BYTES_PER_TOKEN = 2_000
RETRYABLE_KINDS = frozenset({"failed", "rate_limited", "unreachable"})
DIALECT_STATUS_CODES = frozenset({400, 422})


@dataclass(slots=True)
class ChatCall:
    """State of one call, which may need several requests.

    Attributes:
        request: The request, independent of its dialect.
        dialect: Features of the endpoint that the next request uses.
        timeout_seconds: Time for the call.
        deadline: End of the time for the call, in seconds of the event loop's clock.
        first_piece_deadline: End of the time for the first piece.
        has_fallen_back: Whether the dialect changed during the call.
        has_retried: Whether a request was repeated after a failure.
        has_begun: Whether the caller has received a piece of the text.
    """

    request: ChatRequest
    dialect: ChatDialect
    timeout_seconds: float
    deadline: float
    first_piece_deadline: float
    has_fallen_back: bool = False
    has_retried: bool = False
    has_begun: bool = False

    def create_parser(self, content_type: str) -> ResponseParser:
        """Create a parser for the format of the reply, which may differ from the requested format."""
        is_event_stream = content_type.startswith("text/event-stream")
        if self.request.is_streamed:
            is_event_stream = not content_type.startswith("application/json")
        return ResponseParser(
            is_event_stream=is_event_stream, max_bytes=BASE_BYTES + BYTES_PER_TOKEN * self.request.max_tokens
        )


class OpenAIChat:
    """Chat model that calls ``POST {base_url}/chat/completions``.

    If the endpoint refuses a request in one dialect (request format), the request is sent again in a simpler dialect. A
    dialect that succeeds is used until the process ends. Each object has a separate circuit breaker. Create one object
    for each use, because failures of calls with short timeouts must not block calls with long timeouts.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        idle_timeout_seconds: float = IDLE_TIMEOUT_SECONDS,
        first_delay_seconds: float = FIRST_DELAY_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Create a model at an endpoint.

        Args:
            base_url: URL of the endpoint.
            api_key: API key; None if the endpoint needs none.
            model: Name of the model.
            idle_timeout_seconds: Timeout between two pieces.
            first_delay_seconds: Pause before a retry.
            clock: Clock of the circuit breaker, in seconds.
        """
        self._headers = build_headers(api_key)
        self._client = create_openai_client(base_url, api_key, timeout_seconds=None)
        # The attribute is accessed before the first call, because the access imports half of the openai package.
        self._create = self._client.chat.completions.with_streaming_response.create
        self._model = model
        self._idle_timeout_seconds = idle_timeout_seconds
        self._first_delay_seconds = first_delay_seconds
        self._dialect = ChatDialect()
        self._breaker = CircuitBreaker("chat", ChatUnavailable, clock=clock)

    @property
    def circuit_breaker(self) -> CircuitBreaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

    @property
    def name(self) -> str:
        """Configured name of the model."""
        return self._model

    async def complete(self, messages: Sequence[ChatMessage], *, max_tokens: int, timeout_seconds: float) -> Completion:
        """Return a complete text, which is never empty. Raises ChatUnavailable."""
        text, parser = await self._complete_with_retries(ChatRequest(messages, max_tokens), timeout_seconds)
        return Completion(text, parser.tokens, parser.is_truncated)

    async def complete_structured(
        self, messages: Sequence[ChatMessage], shape: type[Shape], *, max_tokens: int, timeout_seconds: float
    ) -> StructuredCompletion[Shape]:
        """Return an object of a Pydantic model, whose JSON Schema the request contains. Raises ChatUnavailable."""
        text, parser = await self._complete_with_retries(ChatRequest(messages, max_tokens, shape), timeout_seconds)
        try:
            return StructuredCompletion(parse_structured_output(text, shape), parser.tokens)
        except UnparseableOutput as exc:
            message = f"The chat model's answer cannot be used: {exc}."
            raise ChatUnavailable(message, reason="invalid_response", tokens=parser.tokens) from exc

    @asynccontextmanager
    async def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        timeout_seconds: float,
        first_piece_timeout_seconds: float | None = None,
    ) -> AsyncIterator[ChatStream]:
        """Stream a text as ``ChatModel.stream`` does. Reading the pieces raises ChatUnavailable."""
        chat_stream = ChatStream()
        call = self._start_call(
            ChatRequest(messages, max_tokens, is_streamed=True),
            timeout_seconds,
            first_piece_timeout_seconds=first_piece_timeout_seconds,
        )
        async with aclosing(self._stream_with_retries(call, chat_stream)) as pieces:
            chat_stream.pieces = pieces
            yield chat_stream

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _start_call(
        self, request: ChatRequest, timeout_seconds: float, *, first_piece_timeout_seconds: float | None = None
    ) -> ChatCall:
        now = asyncio.get_running_loop().time()
        first_piece_seconds = (
            timeout_seconds
            if first_piece_timeout_seconds is None
            else min(first_piece_timeout_seconds, timeout_seconds)
        )
        return ChatCall(request, self._dialect, timeout_seconds, now + timeout_seconds, now + first_piece_seconds)

    async def _complete_with_retries(self, request: ChatRequest, timeout_seconds: float) -> tuple[str, ResponseParser]:
        call = self._start_call(request, timeout_seconds)
        while True:
            try:
                text, parser = await self._send_request(call)
            except (EndpointFailed, APIStatusError) as exc:
                await asyncio.sleep(self._plan_retry(call, exc))
            else:
                self._remember_dialect(call)
                _check_response(parser)
                return text, parser

    async def _send_request(self, call: ChatCall) -> tuple[str, ResponseParser]:
        """Send one request. Raises EndpointFailed, and APIStatusError for a refusal."""
        hang_timeout_seconds = max(GRACE_SECONDS, HANG_SHARE * call.timeout_seconds)
        with (
            self._breaker.call(hang_timeout_seconds=hang_timeout_seconds, grace_seconds=GRACE_SECONDS),
            _translate_errors(),
        ):
            async with asyncio.timeout_at(call.deadline), self._post(call) as response:
                parser = call.create_parser(response.headers.get("content-type", ""))
                texts: list[str] = []
                async for piece in response.iter_bytes():
                    texts += parser.feed(piece)
            texts += parser.finish()
            return "".join(texts), parser

    async def _stream_with_retries(self, call: ChatCall, chat_stream: ChatStream) -> AsyncGenerator[str]:
        while True:
            try:
                async with aclosing(self._stream_request(call, chat_stream)) as pieces:
                    async for piece in pieces:
                        if not call.has_begun:
                            call.has_begun = True
                            self._breaker.mark_streaming()
                            self._remember_dialect(call)
                        yield piece
            except (EndpointFailed, APIStatusError) as exc:
                pause = self._plan_retry(call, exc)
            else:
                return
            await asyncio.sleep(pause)

    async def _stream_request(self, call: ChatCall, chat_stream: ChatStream) -> AsyncGenerator[str]:
        """Stream the text of one request. Raises the errors of ``_send_request``, and ChatUnavailable."""
        # A caller that disconnects during an answer is not a failure of the endpoint.
        with self._breaker.call(hang_timeout_seconds=math.inf), _translate_errors():
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(call.first_piece_deadline):
                    response = await stack.enter_async_context(self._post(call))
                parser = call.create_parser(response.headers.get("content-type", ""))
                pieces = response.iter_bytes()
                while not parser.is_done and (piece := await self._read_piece(pieces, call)) is not None:
                    for text in parser.feed(piece):
                        yield text
                if parser.is_done:
                    await _drain(pieces, deadline=call.deadline)
                for text in parser.finish():
                    yield text
            chat_stream.tokens, chat_stream.is_truncated = parser.tokens, parser.is_truncated
        _check_response(parser)

    async def _read_piece(self, pieces: AsyncIterator[bytes], call: ChatCall) -> bytes | None:
        idle_deadline = asyncio.get_running_loop().time() + self._idle_timeout_seconds
        async with asyncio.timeout_at(
            min(call.deadline, idle_deadline) if call.has_begun else call.first_piece_deadline
        ):
            return await anext(pieces, None)

    def _post(self, call: ChatCall) -> AbstractAsyncContextManager[Any]:
        # The code reads the raw reply, because the openai package neither limits nor checks a reply. It passes the
        # request as ``extra_body``, because the package converts all other arguments, which takes a third of the time
        # of a call.
        body = call.request.build_body(call.dialect)
        return self._create(model=self._model, messages=[], extra_headers=self._headers, extra_body=body)

    def _plan_retry(self, call: ChatCall, error: EndpointFailed | APIStatusError) -> float:
        """Return the seconds before the next request, maybe in another dialect.

        Raises ChatUnavailable if no further request may help.
        """
        if isinstance(error, APIStatusError):
            fallback = call.request.find_fallback(call.dialect, error.param) if _is_dialect_error(error) else None
            if fallback is None:
                raise _create_refusal(error) from error
            call.dialect, call.has_fallen_back = fallback, True
            return 0.0
        delay = self._first_delay_seconds if error.retry_after is None else error.retry_after
        pause = delay * random.uniform(1.0, 1.1)  # noqa: S311  no secret
        is_late = asyncio.get_running_loop().time() + pause + MIN_RETRY_SECONDS > call.first_piece_deadline
        if call.has_begun or call.has_retried or is_late or error.kind not in RETRYABLE_KINDS:
            if error.kind == "rate_limited" and error.retry_after:
                self._breaker.pause(error.retry_after)
            message = f"The chat model failed: {error}."
            raise ChatUnavailable(message, reason=error.kind, retry_after=max(2.0, error.retry_after or 0.0)) from error
        call.has_retried = True
        return pause

    def _remember_dialect(self, call: ChatCall) -> None:
        """Use the dialect of a successful call for later calls, if the call has changed its dialect."""
        if call.has_fallen_back and call.dialect != self._dialect:
            self._dialect = call.dialect
            logger.info("chat.dialect", model=self._model, schema=call.dialect.schema, limit=call.dialect.limit_field)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate the errors of a request. Raises EndpointFailed, and APIStatusError for a refusal."""
    try:
        yield
    except TimeoutError as exc:
        raise EndpointFailed("no answer in time", kind="timeout") from exc
    except APIError as exc:
        if is_refusal(exc):
            raise
        raise to_endpoint_failure(exc) from exc
    except (httpx2.RequestError, OSError) as exc:
        raise EndpointFailed("the connection broke", kind="unreachable") from exc


async def _drain(pieces: AsyncIterator[bytes], *, deadline: float) -> None:
    deadline = min(deadline, asyncio.get_running_loop().time() + DRAIN_TIMEOUT_SECONDS)
    # If the end of the stream fails, the connection is closed; the text is complete anyway.
    with suppress(httpx2.RequestError, OSError):
        async with asyncio.timeout_at(deadline):
            async for _ in pieces:
                pass


def _is_dialect_error(error: APIStatusError) -> bool:
    return error.status_code in DIALECT_STATUS_CODES and error.code != "context_length_exceeded"


def _create_refusal(error: APIStatusError) -> ChatUnavailable:
    hint = {
        401: "check CARREL_CHAT_API_KEY",
        403: "check what CARREL_CHAT_API_KEY may do",
        404: "check CARREL_CHAT_BASE_URL and the model's name",
    }.get(error.status_code, "it does not take this request")
    return ChatUnavailable(f"The chat model refuses (HTTP {error.status_code}): {hint}.", reason="refused")


def _check_response(parser: ResponseParser) -> None:
    """Raise ChatUnavailable if the reply is a refusal or has no text."""
    if parser.is_refused:
        raise ChatUnavailable("The chat model refuses to answer.", reason="refused", tokens=parser.tokens)
    if not parser.has_text:
        raise ChatUnavailable("The chat model's answer is empty.", reason="invalid_response", tokens=parser.tokens)

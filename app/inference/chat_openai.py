"""Any chat model behind an OpenAI-compatible endpoint: hard limits in time and size, checked replies."""

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

from app.inference.breaker import Breaker, EndpointFailed
from app.inference.chat import (
    ChatMessage,
    ChatStream,
    ChatUnavailable,
    Completion,
    StructuredCompletion,
)
from app.inference.chat_openai_wire import Dialect, Question, ReplyReader
from app.inference.openai_client import failure, is_refusal, open_client, own_headers
from app.inference.structured import Shape, UnusableAnswer, read_answer
from app.logging import get_logger

logger = get_logger(__name__)

# Between two pieces; before the first one a model may think for as long as the call may take.
IDLE_SECONDS = 20.0
FIRST_DELAY = 0.1
# Without so much time left after the pause a second request only costs more.
LEAST_SECONDS = 0.5
# Whoever gives a call up when this part of its time is over has seen the endpoint hang.
HUNG = 0.8
# Being late for whoever waits no longer than this is no failure of the endpoint.
FAIR_SECONDS = 0.3
# How long the end of a stream is waited for after its last event, so that the connection can be used again.
DRAIN_SECONDS = 0.1
BYTES = 100_000
BYTES_A_TOKEN = 2_000
PASSING = frozenset({"failed", "rate_limited", "unreachable"})
MAYBE_DIALECT = frozenset({400, 422})


@dataclass(slots=True)
class Call:
    """One call, which may take several requests; ``begun`` when its caller has some of the text, ``simpler`` when its
    dialect is no longer the one that it began with. Its text begins before ``first`` or not at all.
    """

    question: Question
    dialect: Dialect
    seconds: float
    deadline: float
    first: float
    simpler: bool = False
    retried: bool = False
    begun: bool = False

    def reader(self, content_type: str) -> ReplyReader:
        """For what comes, whether it was asked for or not."""
        events = content_type.startswith("text/event-stream")
        if self.question.streams:
            events = not content_type.startswith("application/json")
        return ReplyReader(events=events, most=BYTES + BYTES_A_TOKEN * self.question.max_tokens)


class OpenAIChat:
    """A ChatModel over ``POST {base_url}/chat/completions``.

    An endpoint that refuses a request in one dialect is asked in a simpler one, which is kept for the life of the
    process when it helps. The circuit breaker is this object's own: have one for each use, for calls with little time
    fail sooner, and those with more should not suffer for it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        *,
        idle_seconds: float = IDLE_SECONDS,
        first_delay: float = FIRST_DELAY,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``clock`` is the circuit breaker's."""
        self._headers = own_headers(api_key)
        self._client = open_client(base_url, api_key, timeout_seconds=None)
        # Looked up here: the package imports half of itself on the way, while nobody waits yet.
        self._create = self._client.chat.completions.with_streaming_response.create
        self._model = model
        self._idle_seconds = idle_seconds
        self._first_delay = first_delay
        self._dialect = Dialect()
        self._breaker = Breaker("chat", ChatUnavailable, clock=clock)

    @property
    def circuit_breaker(self) -> Breaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

    @property
    def name(self) -> str:
        """As configured."""
        return self._model

    async def complete(self, messages: Sequence[ChatMessage], *, max_tokens: int, seconds: float) -> Completion:
        """A whole text, never an empty one. Raises ChatUnavailable."""
        text, reader = await self._answer(Question(messages, max_tokens), seconds)
        return Completion(text, reader.tokens, reader.cut_off)

    async def structured(
        self, messages: Sequence[ChatMessage], shape: type[Shape], *, max_tokens: int, seconds: float
    ) -> StructuredCompletion[Shape]:
        """An object; the model is told its JSON Schema. Raises ChatUnavailable."""
        text, reader = await self._answer(Question(messages, max_tokens, shape), seconds)
        try:
            return StructuredCompletion(read_answer(text, shape), reader.tokens)
        except UnusableAnswer as exc:
            message = f"The chat model's answer cannot be used: {exc}."
            raise ChatUnavailable(message, reason="garbage", tokens=reader.tokens) from exc

    @asynccontextmanager
    async def stream(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, seconds: float, first_seconds: float | None = None
    ) -> AsyncIterator[ChatStream]:
        """A text piece by piece. Reading the pieces raises ChatUnavailable, also after some of them."""
        answer = ChatStream()
        call = self._begin(Question(messages, max_tokens, streams=True), seconds, first_seconds=first_seconds)
        async with aclosing(self._pieces(call, answer)) as pieces:
            answer.pieces = pieces
            yield answer

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _begin(self, question: Question, seconds: float, *, first_seconds: float | None = None) -> Call:
        now = asyncio.get_running_loop().time()
        first = seconds if first_seconds is None else min(first_seconds, seconds)
        return Call(question, self._dialect, seconds, now + seconds, now + first)

    async def _answer(self, question: Question, seconds: float) -> tuple[str, ReplyReader]:
        call = self._begin(question, seconds)
        while True:
            try:
                text, reader = await self._ask(call)
            except (EndpointFailed, APIStatusError) as exc:
                await asyncio.sleep(self._pause(call, exc))
            else:
                self._learn(call)
                _check(reader)
                return text, reader

    async def _ask(self, call: Call) -> tuple[str, ReplyReader]:
        """One request. Raises EndpointFailed, and APIStatusError for a refusal."""
        hangs_after = max(FAIR_SECONDS, HUNG * call.seconds)
        with self._breaker.call(hangs_after=hangs_after, fair_seconds=FAIR_SECONDS), _translated():
            async with asyncio.timeout_at(call.deadline), self._post(call) as response:
                reader = call.reader(response.headers.get("content-type", ""))
                texts: list[str] = []
                async for piece in response.iter_bytes():
                    texts += reader.feed(piece)
            texts += reader.end()
            return "".join(texts), reader

    async def _pieces(self, call: Call, answer: ChatStream) -> AsyncGenerator[str]:
        while True:
            try:
                async with aclosing(self._read(call, answer)) as pieces:
                    async for piece in pieces:
                        if not call.begun:
                            call.begun = True
                            self._breaker.answering()
                            self._learn(call)
                        yield piece
            except (EndpointFailed, APIStatusError) as exc:
                pause = self._pause(call, exc)
            else:
                return
            await asyncio.sleep(pause)

    async def _read(self, call: Call, answer: ChatStream) -> AsyncGenerator[str]:
        """One request's text as it comes. Raises as ``_ask``, and ChatUnavailable."""
        # Whoever goes away in the middle of an answer says nothing about the endpoint.
        with self._breaker.call(hangs_after=math.inf), _translated():
            async with AsyncExitStack() as stack:
                async with asyncio.timeout_at(call.first):
                    response = await stack.enter_async_context(self._post(call))
                reader = call.reader(response.headers.get("content-type", ""))
                pieces = response.iter_bytes()
                while not reader.done and (piece := await self._next(pieces, call)) is not None:
                    for text in reader.feed(piece):
                        yield text
                if reader.done:
                    await _drain(pieces, until=call.deadline)
                for text in reader.end():
                    yield text
            answer.tokens, answer.cut_off = reader.tokens, reader.cut_off
        _check(reader)

    async def _next(self, pieces: AsyncIterator[bytes], call: Call) -> bytes | None:
        idle = asyncio.get_running_loop().time() + self._idle_seconds
        async with asyncio.timeout_at(min(call.deadline, idle) if call.begun else call.first):
            return await anext(pieces, None)

    def _post(self, call: Call) -> AbstractAsyncContextManager[Any]:
        # The raw reply: the package reads as much as there is, and checks nothing. The body as an extra: through
        # anything else it walks looking for types, which takes a third of the whole call.
        body = call.question.body(call.dialect)
        return self._create(model=self._model, messages=[], extra_headers=self._headers, extra_body=body)

    def _pause(self, call: Call, error: EndpointFailed | APIStatusError) -> float:
        """Seconds before the next request, which may be another one. Raises ChatUnavailable where there is none."""
        if isinstance(error, APIStatusError):
            simpler = call.question.simpler(call.dialect, error.param) if _may_be_dialect(error) else None
            if simpler is None:
                raise _refused(error) from error
            call.dialect, call.simpler = simpler, True
            return 0.0
        asked = self._first_delay if error.retry_after is None else error.retry_after
        pause = asked * random.uniform(1.0, 1.1)  # noqa: S311  no secret
        late = asyncio.get_running_loop().time() + pause + LEAST_SECONDS > call.first
        if call.begun or call.retried or late or error.kind not in PASSING:
            if error.kind == "rate_limited" and error.retry_after:
                self._breaker.rest(error.retry_after)
            message = f"The chat model failed: {error}."
            raise ChatUnavailable(message, reason=error.kind, retry_after=max(2.0, error.retry_after or 0.0)) from error
        call.retried = True
        return pause

    def _learn(self, call: Call) -> None:
        """What has helped is kept; others that began before say nothing about it."""
        if call.simpler and call.dialect != self._dialect:
            self._dialect = call.dialect
            logger.info("chat.dialect", model=self._model, schema=call.dialect.schema, limit=call.dialect.limit)


@contextmanager
def _translated() -> Iterator[None]:
    """Around a request. Raises EndpointFailed, and APIStatusError for a refusal."""
    try:
        yield
    except TimeoutError as exc:
        raise EndpointFailed("no answer in time", kind="timeout") from exc
    except APIError as exc:
        if is_refusal(exc):
            raise
        raise failure(exc) from exc
    except (httpx2.RequestError, OSError) as exc:
        raise EndpointFailed("the connection broke", kind="unreachable") from exc


async def _drain(pieces: AsyncIterator[bytes], *, until: float) -> None:
    until = min(until, asyncio.get_running_loop().time() + DRAIN_SECONDS)
    # Where it does not end well, the connection is closed, and the text is whole all the same.
    with suppress(httpx2.RequestError, OSError):
        async with asyncio.timeout_at(until):
            async for _ in pieces:
                pass


def _may_be_dialect(error: APIStatusError) -> bool:
    return error.status_code in MAYBE_DIALECT and error.code != "context_length_exceeded"


def _refused(error: APIStatusError) -> ChatUnavailable:
    hint = {
        401: "check CARREL_CHAT_API_KEY",
        403: "check what CARREL_CHAT_API_KEY may do",
        404: "check CARREL_CHAT_BASE_URL and the model's name",
    }.get(error.status_code, "it does not take this request")
    return ChatUnavailable(f"The chat model refuses (HTTP {error.status_code}): {hint}.", reason="refused")


def _check(reader: ReplyReader) -> None:
    """Raises ChatUnavailable where there is a reply without an answer."""
    if reader.refused:
        raise ChatUnavailable("The chat model refuses to answer.", reason="refused", tokens=reader.tokens)
    if not reader.begun:
        raise ChatUnavailable("The chat model's answer is empty.", reason="garbage", tokens=reader.tokens)

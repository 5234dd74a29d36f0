"""Streamed text of a chat model: in pieces of any size, stalled, broken off, cancelled."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.inference.chat import ChatMessage, ChatStream, ChatTokens, ChatUnavailable
from app.inference.chat.openai_chat import OpenAIChat
from app.inference.circuit_breaker import MAX_FAILURES
from harness.protocol_servers.chat import ChatFailure, ChatServer

HELLO = [ChatMessage("user", "hello, café 🚗")]
SAID = "You said: hello, café 🚗"
AMPLE = 30.0


@pytest.fixture
async def chat(server: ChatServer) -> AsyncIterator[OpenAIChat]:
    model = OpenAIChat(server.base_url, "secret", "talker", idle_timeout_seconds=5.0, first_delay_seconds=0.01)
    yield model
    await model.close()


async def read(
    chat: OpenAIChat,
    came: list[str],
    *,
    seconds: float = AMPLE,
    max_tokens: int = 50,
    first_seconds: float | None = None,
) -> ChatStream:
    async with chat.stream(
        HELLO, max_tokens=max_tokens, timeout_seconds=seconds, first_piece_timeout_seconds=first_seconds
    ) as answer:
        async for piece in answer.pieces:
            came.append(piece)
    return answer


async def streamed(chat: OpenAIChat) -> tuple[list[str], ChatStream]:
    came: list[str] = []
    return came, await read(chat, came)


async def spoiled(
    chat: OpenAIChat, *, seconds: float = AMPLE, max_tokens: int = 50, first_seconds: float | None = None
) -> tuple[str, ChatUnavailable]:
    """Return the text that arrived and the error that ended it."""
    came: list[str] = []
    with pytest.raises(ChatUnavailable) as caught:
        await read(chat, came, seconds=seconds, max_tokens=max_tokens, first_seconds=first_seconds)
    assert "may repeat the input" not in caught.value.message
    return "".join(came), caught.value


@pytest.mark.parametrize("fragment", [None, 1, 7])
async def test_chat_stream_pieces_arrive_one_by_one(server: ChatServer, chat: OpenAIChat, fragment: int | None) -> None:
    server.fragment_bytes = fragment
    pieces, answer = await streamed(chat)
    assert pieces == ["You ", "said: ", "hello, ", "café ", "🚗"]
    assert (answer.tokens, answer.is_truncated) == (ChatTokens(75, 25), False)
    assert server.text_requests[0].body["stream_options"] == {"include_usage": True}


async def test_chat_stream_first_piece_does_not_wait_for_last(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("stall")
    async with asyncio.timeout(60.0), chat.stream(HELLO, max_tokens=50, timeout_seconds=AMPLE) as answer:
        assert await anext(aiter(answer.pieces)) == "You "


async def test_chat_stream_connection_is_reused(server: ChatServer, chat: OpenAIChat) -> None:
    for _ in range(3):
        await streamed(chat)
    assert server.connections == 1


async def test_chat_stream_of_endpoint_without_streaming_is_one_piece(server: ChatServer, chat: OpenAIChat) -> None:
    server.can_stream = False
    pieces, answer = await streamed(chat)
    assert (pieces, answer.tokens) == ([SAID], ChatTokens(75, 25))


async def test_chat_stream_usage_option_is_dropped_if_refused(server: ChatServer, chat: OpenAIChat) -> None:
    server.unsupported_features, server.has_error_param = {"stream_options"}, False
    for _ in range(2):
        pieces, answer = await streamed(chat)
        assert ("".join(pieces), answer.tokens) == (SAID, ChatTokens())
    assert ["stream_options" in talk.body for talk in server.text_requests] == [True, False, False]


async def test_chat_stream_at_token_limit_is_truncated(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("length")
    assert (await streamed(chat))[1].is_truncated


@pytest.mark.parametrize("how", [429, 500, "disconnect"])
async def test_chat_stream_failure_before_first_piece_is_retried_once(
    server: ChatServer, chat: OpenAIChat, how: ChatFailure | int
) -> None:
    server.fail(how, retry_after="0.01")
    assert "".join((await streamed(chat))[0]) == SAID
    assert len(server.text_requests) == 2


@pytest.mark.parametrize(
    ("how", "came", "reason"),
    [
        ("break_off", "You ", "unreachable"),
        ("error_event", "You ", "invalid_response"),
        ("no_end", SAID, "invalid_response"),
        ("filtered", SAID, "refused"),
        ("refusal", "", "refused"),
        ("empty", "", "invalid_response"),
        ("garbage", "", "invalid_response"),
        ("not_json", "", "invalid_response"),
        (401, "", "refused"),
        (429, "", "rate_limited"),
    ],
)
async def test_chat_stream_failure_follows_received_pieces(
    server: ChatServer, chat: OpenAIChat, how: ChatFailure | int, came: str, reason: str
) -> None:
    server.fail(how, retry_after="600")
    text, error = await spoiled(chat)
    assert (text, error.reason, len(server.text_requests)) == (came, reason, 1)


async def test_chat_stream_stall_is_timeout(server: ChatServer) -> None:
    chat = OpenAIChat(server.base_url, None, "talker", idle_timeout_seconds=0.1)
    server.fail("stall")
    async with asyncio.timeout(60.0):
        text, error = await spoiled(chat)
    assert (text, error.reason) == ("You ", "timeout")
    assert await asyncio.to_thread(server.client_left.wait, 60.0)
    await chat.close()


async def test_chat_stream_slow_first_token_is_no_stall(server: ChatServer) -> None:
    chat = OpenAIChat(server.base_url, None, "talker", idle_timeout_seconds=2.0)
    server.delay_seconds = 2.2
    assert "".join((await streamed(chat))[0]) == SAID
    await chat.close()


@pytest.mark.parametrize("how", ["slow", "stall"])
async def test_chat_stream_total_time_is_limited(server: ChatServer, chat: OpenAIChat, how: ChatFailure) -> None:
    server.fail(how)
    async with asyncio.timeout(60.0):
        _, error = await spoiled(chat, seconds=0.2)
    assert error.reason == "timeout"


async def test_chat_stream_first_piece_has_separate_time_limit(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("slow", times=MAX_FAILURES)
    for _ in range(MAX_FAILURES):
        async with asyncio.timeout(60.0):
            _, error = await spoiled(chat, first_seconds=0.1)
        assert error.reason == "timeout"
    assert (await spoiled(chat))[1].reason == "circuit_open"  # a stream that never begins is a failure


async def test_chat_stream_later_pieces_are_not_limited_by_first(server: ChatServer, chat: OpenAIChat) -> None:
    server.pause_seconds = 0.6
    came: list[str] = []
    await read(chat, came, first_seconds=2.0)
    assert "".join(came) == SAID


async def test_chat_stream_endless_answer_is_refused(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("endless")
    async with asyncio.timeout(60.0):
        _, error = await spoiled(chat, max_tokens=1)
    assert (error.reason, "too long" in error.message) == ("invalid_response", True)


@pytest.mark.parametrize("leave", ["break", "raise", "cancel"])
async def test_chat_stream_left_early_closes_connection(server: ChatServer, chat: OpenAIChat, leave: str) -> None:
    server.fail("stall")
    begun = asyncio.Event()

    async def read() -> None:
        async with chat.stream(HELLO, max_tokens=50, timeout_seconds=AMPLE) as answer:
            async for _ in answer.pieces:
                begun.set()
                if leave == "break":
                    break
                if leave == "raise":
                    raise LookupError

    reading = asyncio.create_task(read())
    await begun.wait()
    if leave == "cancel":
        reading.cancel()
    expected = {"break": None, "raise": LookupError, "cancel": asyncio.CancelledError}[leave]
    (ended,) = await asyncio.gather(reading, return_exceptions=True)
    assert type(ended) is (expected or type(None))
    assert await asyncio.to_thread(server.client_left.wait, 60.0)


async def test_chat_stream_readers_leaving_do_not_open_circuit(server: ChatServer, chat: OpenAIChat) -> None:
    for _ in range(MAX_FAILURES + 1):
        async with chat.stream(HELLO, max_tokens=50, timeout_seconds=AMPLE) as answer:
            assert await anext(aiter(answer.pieces)) == "You "
    assert "".join((await streamed(chat))[0]) == SAID


async def test_chat_stream_other_calls_do_not_wait_for_end_of_trial(server: ChatServer) -> None:
    now = 100.0
    chat = OpenAIChat(server.base_url, None, "talker", clock=lambda: now)
    server.fail("not_json", times=MAX_FAILURES)
    for _ in range(MAX_FAILURES):
        await spoiled(chat)
    assert (await spoiled(chat))[1].reason == "circuit_open"
    now += 1.0
    server.fail("stall")
    async with chat.stream(HELLO, max_tokens=50, timeout_seconds=AMPLE) as answer:
        assert await anext(aiter(answer.pieces)) == "You "
        assert "".join((await streamed(chat))[0]) == SAID
    await chat.close()


async def test_chat_stream_repeated_failures_open_circuit(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("error_event", times=MAX_FAILURES)
    for _ in range(MAX_FAILURES):
        assert (await spoiled(chat))[0] == "You "
    assert (await spoiled(chat))[1].reason == "circuit_open"

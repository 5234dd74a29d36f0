"""Texts and objects from a chat model over HTTP: requests, validation of replies, and retries."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest
from pydantic import BaseModel

from app.inference.chat import ChatMessage, ChatTokens, ChatUnavailable
from app.inference.chat.openai_chat import OpenAIChat
from app.inference.circuit_breaker import MAX_FAILURES
from harness.protocol_servers.chat import ChatFailure, ChatFeature, ChatServer, ReceivedTextRequest

HELLO = [ChatMessage("system", "Be brief."), ChatMessage("user", "hello")]
SAID = "You said: hello"
# Long enough for all tests that are not about time.
AMPLE = 30.0


class RewriteAnswer(BaseModel):
    """The requested object."""

    query: str
    indices: list[int] = []


@pytest.fixture
async def chat(server: ChatServer) -> AsyncIterator[OpenAIChat]:
    model = OpenAIChat(server.base_url, "secret", "talker", first_delay_seconds=0.01)
    yield model
    await model.close()


async def complete(chat: OpenAIChat, *, seconds: float = AMPLE) -> str:
    return (await chat.complete(HELLO, max_tokens=50, timeout_seconds=seconds)).text


async def refused_for(chat: OpenAIChat, *, seconds: float = AMPLE) -> ChatUnavailable:
    with pytest.raises(ChatUnavailable) as caught:
        await complete(chat, seconds=seconds)
    return caught.value


async def test_chat_messages_are_sent_and_answered(server: ChatServer, chat: OpenAIChat) -> None:
    completion = await chat.complete(HELLO, max_tokens=50, timeout_seconds=AMPLE)
    assert (completion.text, completion.tokens, completion.is_truncated) == (SAID, ChatTokens(75, 25), False)
    (talk,) = server.text_requests
    assert talk.messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert talk.body == {"model": "talker", "max_tokens": 50, "messages": talk.messages}
    assert talk.headers["authorization"] == "Bearer secret"


async def test_chat_without_key_sends_no_authorization(server: ChatServer) -> None:
    chat = OpenAIChat(server.base_url, None, "talker")
    await complete(chat)
    await chat.close()
    assert "authorization" not in server.text_requests[0].headers


async def test_chat_lone_surrogates_are_replaced(server: ChatServer, chat: OpenAIChat) -> None:
    server.reply = lambda _: "one \ud83d two"
    completion = await chat.complete([ChatMessage("user", "half \ud83d")], max_tokens=50, timeout_seconds=AMPLE)
    assert (completion.text, server.text_requests[0].last_message) == ("one ? two", "half ?")


async def test_chat_at_token_limit_is_truncated(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("length")
    assert (await chat.complete(HELLO, max_tokens=3, timeout_seconds=AMPLE)).is_truncated


async def test_chat_missing_usage_is_none(server: ChatServer, chat: OpenAIChat) -> None:
    server.tokens = None
    assert (await chat.complete(HELLO, max_tokens=50, timeout_seconds=AMPLE)).tokens == ChatTokens()


@pytest.mark.parametrize("how", [429, 500, 503, "disconnect", "break_off"])
async def test_chat_transient_failure_is_retried_once(
    server: ChatServer, chat: OpenAIChat, how: ChatFailure | int
) -> None:
    server.fail(how, retry_after="0.01")
    assert await complete(chat) == SAID
    assert len(server.text_requests) == 2


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (429, "rate_limited"),
        (408, "failed"),
        (500, "failed"),
        ("disconnect", "unreachable"),
        ("break_off", "unreachable"),
    ],
)
async def test_chat_repeated_failure_raises(
    server: ChatServer, chat: OpenAIChat, how: ChatFailure | int, reason: str
) -> None:
    server.fail(how, times=2, retry_after="0.01")
    error = await refused_for(chat)
    assert (error.reason, len(server.text_requests)) == (reason, 2)
    assert "may repeat the input" not in error.message


@pytest.mark.parametrize(
    ("how", "reason", "hint"),
    [
        (400, "refused", "this request"),
        (401, "refused", "CARREL_CHAT_API_KEY"),
        (404, "refused", "CARREL_CHAT_BASE_URL"),
        ("refusal", "refused", "refuses to answer"),
        ("filtered", "refused", "refuses to answer"),
        ("empty", "invalid_response", "is empty"),
        ("garbage", "invalid_response", "unknown format"),
        ("not_json", "invalid_response", "not JSON"),
    ],
)
async def test_chat_permanent_failure_is_not_retried(
    server: ChatServer, chat: OpenAIChat, how: ChatFailure | int, reason: str, hint: str
) -> None:
    server.fail(how)
    error = await refused_for(chat)
    assert (error.reason, len(server.text_requests)) == (reason, 1)
    assert hint in error.message
    assert "may repeat the input" not in error.message


def tomorrow() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)


@pytest.mark.parametrize(
    ("retry_after", "told"), [("60", 60.0), ("29.8", 29.8), (tomorrow(), 3600.0)], ids=["long", "just too long", "date"]
)
async def test_chat_retry_after_above_timeout_is_not_waited_for(
    server: ChatServer, chat: OpenAIChat, retry_after: str, told: float
) -> None:
    server.fail(429, retry_after=retry_after)
    error = await refused_for(chat)
    assert (error.reason, len(server.text_requests)) == ("rate_limited", 1)
    assert error.retry_after == told


async def test_chat_stopped_endpoint_is_unreachable(server: ChatServer) -> None:
    url = server.base_url
    server.__exit__(None, None, None)
    chat = OpenAIChat(url, None, "talker", first_delay_seconds=0.01)
    with socket.socket() as reserved:  # reserves the port without listening
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", httpx2.URL(url).port or 0))
        assert (await refused_for(chat)).reason == "unreachable"
    await chat.close()
    server.__enter__()


@pytest.mark.parametrize("how", ["slow", "late"])
async def test_chat_silent_endpoint_is_timeout(server: ChatServer, chat: OpenAIChat, how: str) -> None:
    if how == "slow":
        server.fail("slow")
    else:
        server.delay_seconds = 30.0
    async with asyncio.timeout(60.0):
        error = await refused_for(chat, seconds=0.1)
    assert (error.reason, len(server.text_requests) <= 1) == ("timeout", True)
    server.reset()
    server.delay_seconds = 0.0
    assert await complete(chat) == SAID


async def test_chat_cancelled_call_closes_connection(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("slow")
    call = asyncio.create_task(complete(chat))
    while not server.text_requests:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(server.client_left.wait, 60.0)


async def test_chat_endless_reply_is_refused(server: ChatServer, chat: OpenAIChat) -> None:
    server.reply = lambda _: "word " * 100_000
    assert (await refused_for(chat)).reason == "invalid_response"


async def test_chat_repeated_failures_open_circuit(server: ChatServer, chat: OpenAIChat) -> None:
    server.fail("not_json", times=MAX_FAILURES)
    for _ in range(MAX_FAILURES):
        assert (await refused_for(chat)).reason == "invalid_response"
    error = await refused_for(chat)
    assert (error.reason, len(server.text_requests)) == ("circuit_open", MAX_FAILURES)
    assert 0.0 < error.retry_after <= 1.0


@pytest.mark.parametrize(("later", "opens"), [(25.0, True), (20.0, False)])
async def test_chat_cancelled_calls_that_hung_open_circuit(server: ChatServer, later: float, opens: bool) -> None:
    now = 100.0
    chat = OpenAIChat(server.base_url, None, "talker", clock=lambda: now)
    server.fail("slow", times=MAX_FAILURES)
    for count in range(MAX_FAILURES):
        call = asyncio.create_task(complete(chat, seconds=AMPLE))
        while len(server.text_requests) == count:
            await asyncio.sleep(0.01)
        now += later
        call.cancel()
        await asyncio.wait([call])
    if opens:
        assert (await refused_for(chat)).reason == "circuit_open"
    else:
        assert await complete(chat) == SAID
    await chat.close()


def as_json(talk: ReceivedTextRequest) -> str:
    return json.dumps({"query": talk.last_message, "indices": [0]})


async def structured(chat: OpenAIChat) -> RewriteAnswer:
    return (await chat.complete_structured(HELLO, RewriteAnswer, max_tokens=50, timeout_seconds=AMPLE)).value


async def test_chat_structured_request_sends_schema(server: ChatServer, chat: OpenAIChat) -> None:
    server.reply = as_json
    completion = await chat.complete_structured(HELLO, RewriteAnswer, max_tokens=50, timeout_seconds=AMPLE)
    assert (completion.value, completion.tokens) == (RewriteAnswer(query="hello", indices=[0]), ChatTokens(75, 25))
    wanted = server.text_requests[0].body["response_format"]
    assert wanted["json_schema"]["schema"]["required"] == ["query", "indices"]
    assert (wanted["type"], wanted["json_schema"]["name"], wanted["json_schema"]["strict"]) == (
        "json_schema",
        "RewriteAnswer",
        True,
    )


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("lacks", "tried"),
    [
        ({"json_schema"}, ["json_schema", "json_object"]),
        ({"json_schema", "json_object"}, ["json_schema", "json_object", None]),
    ],
    ids=["schema", "both"],
)
async def test_chat_endpoint_without_schema_gets_simpler_dialect(
    server: ChatServer, chat: OpenAIChat, status: int, lacks: set[ChatFeature], tried: list[str | None]
) -> None:
    server.reply, server.unsupported_features, server.refusal_status = as_json, lacks, status
    assert await structured(chat) == RewriteAnswer(query="hello", indices=[0])
    assert await structured(chat) == RewriteAnswer(query="hello", indices=[0])
    formats = [talk.body.get("response_format", {}).get("type") for talk in server.text_requests]
    assert formats == [*tried, tried[-1]]
    last = server.text_requests[-1].messages
    assert last[0]["content"].startswith("Be brief.\n\n")
    assert '"indices"' in last[0]["content"]
    assert [message["role"] for message in last] == ["system", "user"]


async def test_chat_dialect_survives_earlier_calls(server: ChatServer, chat: OpenAIChat) -> None:
    go_on = threading.Event()

    def reply(talk: ReceivedTextRequest) -> str:
        if "response_format" not in talk.body:
            go_on.wait(60.0)
        return as_json(talk)

    server.unsupported_features, server.reply = {"json_schema"}, reply
    before = asyncio.create_task(complete(chat))
    while not server.text_requests:
        await asyncio.sleep(0.01)
    await structured(chat)
    go_on.set()
    await before
    await structured(chat)
    assert server.text_requests[-1].body["response_format"]["type"] == "json_object"


async def test_chat_request_refused_in_every_dialect_leaves_dialect(server: ChatServer, chat: OpenAIChat) -> None:
    server.reply = as_json
    server.fail(400, times=3)
    with pytest.raises(ChatUnavailable):
        await structured(chat)
    await structured(chat)
    assert server.text_requests[-1].body["response_format"]["type"] == "json_schema"


async def test_chat_max_completion_tokens_is_used_if_needed(server: ChatServer, chat: OpenAIChat) -> None:
    server.unsupported_features = {"max_tokens"}
    assert [await complete(chat), await complete(chat)] == [SAID, SAID]
    assert [talk.body.get("max_completion_tokens") for talk in server.text_requests] == [None, 50, 50]


@pytest.mark.parametrize("said", ["I cannot.", '{"query": "hel', '{"question": "x"}'])
async def test_chat_reply_of_other_shape_is_invalid_response(server: ChatServer, chat: OpenAIChat, said: str) -> None:
    server.reply = lambda _: said
    with pytest.raises(ChatUnavailable, match="cannot be used") as caught:
        await structured(chat)
    assert (caught.value.reason, caught.value.tokens, len(server.text_requests)) == (
        "invalid_response",
        ChatTokens(75, 25),
        1,
    )
    assert said not in caught.value.message

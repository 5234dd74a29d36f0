"""Images to text over HTTP: requests, validation of replies, and retries."""

import io

import pytest
from PIL import Image

from app.inference.vision import VisionRejected, VisionUnavailable
from app.inference.vision.openai_vision import MAX_ATTEMPTS, MAX_CHARACTERS, OpenAIVision
from harness.protocol_servers.chat import ChatFailure, ChatServer


def red() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (80, 70), "red").save(buffer, "PNG")
    return buffer.getvalue()


async def describe(server: ChatServer, *, key: str | None = "secret", timeout: float = 5.0) -> tuple[str, int]:
    model = OpenAIVision(server.base_url, key, "looker", timeout_seconds=timeout, first_delay_seconds=0.01)
    try:
        said = await model.describe(red(), "image/png", language="german")
    finally:
        await model.close()
    return said.text, said.tokens


async def test_vision_image_is_sent_and_described(server: ChatServer) -> None:
    assert await describe(server) == ("A red square of 80 by 70 dots.", 100)
    (asked,) = server.received
    assert (asked.body["model"], asked.media_type, asked.image.size) == ("looker", "image/png", (80, 70))
    assert "german" in asked.text
    assert asked.headers["authorization"] == "Bearer secret"
    await describe(server, key=None)
    assert "authorization" not in server.received[-1].headers


@pytest.mark.parametrize("how", [429, 500, 503, "garbage", "not_json"])
async def test_vision_transient_failure_is_retried(server: ChatServer, how: ChatFailure | int) -> None:
    server.fail(how, retry_after="0.01")
    assert (await describe(server))[0].startswith("A red square")
    assert len(server.received) == 2


@pytest.mark.parametrize("how", [500, "garbage"])
async def test_vision_repeated_failure_raises(server: ChatServer, how: ChatFailure | int) -> None:
    server.fail(how, times=MAX_ATTEMPTS, retry_after="0.01")
    with pytest.raises(VisionUnavailable, match="vision model failed"):
        await describe(server)
    assert len(server.received) == MAX_ATTEMPTS


async def test_vision_long_retry_after_is_left_to_caller(server: ChatServer) -> None:
    server.fail(429, retry_after="600")
    with pytest.raises(VisionUnavailable) as caught:
        await describe(server)
    assert (len(server.received), caught.value.retry_after) == (1, 600)


async def test_vision_silent_endpoint_is_unavailable(server: ChatServer) -> None:
    server.fail("slow", times=MAX_ATTEMPTS)
    with pytest.raises(VisionUnavailable, match="no answer in time"):
        await describe(server, timeout=0.05)


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        (400, "this image"),
        (401, "CARREL_CHAT_API_KEY"),
        (404, "CARREL_VISION_MODEL"),
        ("refusal", "does not describe"),
    ],
)
async def test_vision_refusal_is_not_retried(server: ChatServer, how: ChatFailure | int, hint: str) -> None:
    server.fail(how)
    with pytest.raises(VisionRejected, match=hint) as caught:
        await describe(server)
    assert len(server.received) == 1
    assert "may repeat the input" not in str(caught.value.message)


async def test_vision_reply_is_cut_and_missing_usage_is_zero(server: ChatServer) -> None:
    server.describe_image, server.tokens = (lambda _: "word " * 10_000), None
    text, tokens = await describe(server)
    assert (len(text), tokens) == (MAX_CHARACTERS, 0)

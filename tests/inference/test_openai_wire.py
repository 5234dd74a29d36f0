"""Request bodies of each dialect, and validation of replies."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.inference.chat import ChatMessage, ChatTokens
from app.inference.chat.openai_wire import ChatDialect, ChatRequest, ResponseParser
from app.inference.chat.structured_output import INSTRUCTION
from app.inference.circuit_breaker import EndpointFailed

NEWEST = ChatDialect()
MOST = 10_000


class QueryAnswer(BaseModel):
    """The requested object."""

    query: str


def question(*, shape: type[BaseModel] | None = None, streams: bool = False, system: bool = True) -> ChatRequest:
    messages = [ChatMessage("system", "Be brief.")] * system + [ChatMessage("user", "hello")]
    return ChatRequest(messages, 50, shape, streams)


def dialects(asked: ChatRequest, param: str | None) -> Iterator[ChatDialect]:
    """Yield all dialects that are tried while the endpoint refuses."""
    dialect = NEWEST
    while simpler := asked.find_fallback(dialect, param):
        yield simpler
        dialect = simpler


@pytest.mark.parametrize(
    ("asked", "param", "tried"),
    [
        (question(), None, []),
        (question(), "messages", []),
        (question(), "max_tokens", [ChatDialect(limit_field="max_completion_tokens")]),
        (question(shape=QueryAnswer), None, [ChatDialect("json_object"), ChatDialect("prompt")]),
        (question(streams=True), None, [ChatDialect(has_stream_usage=False)]),
        (
            question(shape=QueryAnswer),
            "max_tokens",
            [ChatDialect(schema, "max_completion_tokens") for schema in ("json_schema", "json_object", "prompt")],
        ),
    ],
    ids=["nothing", "another fault", "limit", "schema", "usage", "both"],
)
def test_find_fallback_refusal_gives_simpler_dialect(
    asked: ChatRequest, param: str | None, tried: list[ChatDialect]
) -> None:
    assert list(dialects(asked, param)) == tried


@pytest.mark.parametrize(("system", "before"), [(True, "Be brief.\n\n"), (False, "")])
def test_build_body_schema_in_words_is_first_message(system: bool, before: str) -> None:
    body = question(shape=QueryAnswer, system=system).build_body(ChatDialect("prompt"))
    first, *others = body["messages"]
    said, _, schema = first["content"].partition(INSTRUCTION)
    assert (first["role"], said) == ("system", before)
    assert json.loads(schema)["required"] == ["query"]
    assert others == [{"role": "user", "content": "hello"}]
    assert "response_format" not in body


@pytest.mark.parametrize(
    ("dialect", "options"), [(NEWEST, {"include_usage": True}), (ChatDialect(has_stream_usage=False), None)]
)
def test_build_body_stream_requests_usage_if_supported(dialect: ChatDialect, options: dict[str, bool] | None) -> None:
    body = question(streams=True).build_body(dialect)
    assert (body["stream"], body.get("stream_options")) == (True, options)


def reply(content: Any = "hi", finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage}


def read(payload: Any) -> tuple[str, ResponseParser]:
    reader = ResponseParser(is_event_stream=False, max_bytes=MOST)
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    text = "".join([*reader.feed(data[:3]), *reader.feed(data[3:]), *reader.finish()])
    return text, reader


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, ChatTokens(7, 3)),
        ({"prompt_tokens": 7}, ChatTokens(7, 0)),
        ({"prompt_tokens": "7", "completion_tokens": True}, ChatTokens()),
        ({"prompt_tokens": -7, "completion_tokens": 10**12}, ChatTokens()),
        ([7], ChatTokens()),
        (None, ChatTokens()),
    ],
)
def test_response_parser_reads_numeric_usage_only(usage: Any, tokens: ChatTokens) -> None:
    assert read(reply(usage=usage))[1].tokens == tokens


@pytest.mark.parametrize(
    ("payload", "text", "cut_off", "refused"),
    [
        (reply(), "hi", False, False),
        (reply(finish="length"), "hi", True, False),
        (reply(finish=None), "hi", False, False),
        (reply(finish=7), "hi", False, False),
        (reply(None, refusal="No."), "", False, True),
        (reply(finish="content_filter"), "hi", False, True),
        (reply("", reasoning_content="thinking"), "", False, False),
        (reply("half \ud800"), "half ?", False, False),
        ({"choices": [{"message": None}]}, "", False, False),
    ],
)
def test_response_parser_reads_text_and_finish_reason(payload: Any, text: str, cut_off: bool, refused: bool) -> None:
    said, reader = read(payload)
    assert (said, reader.is_truncated, reader.is_refused, reader.has_text) == (text, cut_off, refused, bool(text))


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"<html>", b"\xff\xfe", b"[" * 9_000, [], "hi", None, {}, {"choices": []}, {"choices": "hi"},
        {"choices": ["hi"]}, {"choices": [{"message": "hi"}]}, {"choices": [{"message": {"content": ["hi"]}}]},
        {"error": {"code": 500}}, b"x" * (MOST + 1),
    ],
    ids=range(15),
)  # fmt: skip
def test_response_parser_malformed_reply_is_refused(payload: Any) -> None:
    with pytest.raises(EndpointFailed):
        read(payload)


def events(*payloads: Any) -> bytes:
    return b"".join(
        b"data: %s\n\n" % (each if isinstance(each, bytes) else json.dumps(each).encode()) for each in payloads
    )


def delta(content: Any = None, finish: Any = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": content} if content is not None else {}, "finish_reason": finish}]}


def test_response_parser_stream_ends_with_mark_or_reason() -> None:
    for ending in (delta(finish="stop"), b"[DONE]"):
        reader = ResponseParser(is_event_stream=True, max_bytes=MOST)
        assert list(reader.feed(events(delta(""), delta("one "), delta("two"), ending))) == ["one ", "two"]
        assert list(reader.finish()) == []
        assert reader.is_done is (ending == b"[DONE]")


def test_response_parser_ignores_events_after_end() -> None:
    reader = ResponseParser(is_event_stream=True, max_bytes=MOST)
    assert list(reader.feed(events(delta("one"), b"[DONE]", delta("two"), b"junk"))) == ["one"]


@pytest.mark.parametrize("spoiled", [b"junk", {"error": {"code": 500}}, delta(7), {"choices": [7]}], ids=range(4))
def test_response_parser_malformed_event_ends_stream(spoiled: Any) -> None:
    reader = ResponseParser(is_event_stream=True, max_bytes=MOST)
    pieces = reader.feed(events(delta("one"), spoiled))
    assert next(pieces) == "one"
    with pytest.raises(EndpointFailed):
        next(pieces)


def test_response_parser_incomplete_stream_is_refused() -> None:
    reader = ResponseParser(is_event_stream=True, max_bytes=MOST)
    assert list(reader.feed(events(delta("one")))) == ["one"]
    with pytest.raises(EndpointFailed, match="incomplete"):
        list(reader.finish())

"""An OpenAI-compatible chat endpoint that talks and looks at pictures, and fails on demand as real ones do."""

import base64
import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Literal, get_args

from PIL import Image

from harness.protocol_servers.http_server import FailingServer, ProtocolHandler, ProtocolHttpServer

# Of texts alone: "stall" and "break_off" come in the middle, "endless" never stops, "length" has used its tokens up,
# "error_event" and "no_end" spoil a stream.
ChatFailure = Literal[
    "slow", "garbage", "not_json", "empty", "refusal",
    "stall", "break_off", "endless", "length", "error_event", "no_end", "disconnect", "filtered",
]  # fmt: skip
ChatFeature = Literal["json_schema", "json_object", "max_tokens", "stream_options"]


@dataclass(frozen=True, slots=True)
class ReceivedVisionRequest:
    """A request that came in: what was asked, and the picture."""

    text: str
    image: Image.Image
    media_type: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReceivedTextRequest:
    """A request that came in without a picture."""

    messages: list[dict[str, str]]
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def last_message(self) -> str:
        return self.messages[-1]["content"]

    @property
    def features(self) -> set[str]:
        """What it makes use of that an endpoint may not know."""
        wanted = {self.body.get("response_format", {}).get("type"), *self.body}
        return wanted & set(get_args(ChatFeature))


def echo_message(talk: ReceivedTextRequest) -> str:
    """Tells talks apart by what was said last."""
    return f"You said: {talk.last_message}"


def request_no_tools(_: ReceivedTextRequest) -> list[dict[str, Any]]:
    """No tool, whatever was said."""
    return []


def find_colour(image: Image.Image) -> str:
    """The strongest of the three colours in the middle."""
    pixel = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    return ("red", "green", "blue")[pixel.index(max(pixel))]


def describe_colour(requested: ReceivedVisionRequest) -> str:
    """Tells pictures apart by what they show."""
    return f"A {find_colour(requested.image)} square of {requested.image.width} by {requested.image.height} dots."


@dataclass
class ChatServer(FailingServer[tuple[ChatFailure | int, str | None]]):
    """``with ChatServer() as server`` serves ``server.base_url``; ``fail`` spoils the next requests.

    Talks are answered by the tools that ``calls`` asks for, else by ``reply``, ``late_seconds`` late and, as streams, a
    word at a time with ``pause_seconds`` between, in writes of ``fragment`` bytes. What ``lacks`` names is refused with
    ``refusal_status``. ``left`` is set when a client has gone away in the middle.
    """

    describe_image: Callable[[ReceivedVisionRequest], str] = describe_colour
    reply: Callable[[ReceivedTextRequest], str] = echo_message
    tool_calls: Callable[[ReceivedTextRequest], list[dict[str, Any]]] = request_no_tools
    tokens: int | None = 100
    unsupported_features: set[ChatFeature] = field(default_factory=set)
    refusal_status: int = 400
    has_error_param: bool = True
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    fragment_bytes: int | None = None
    can_stream: bool = True
    received: list[ReceivedVisionRequest] = field(default_factory=list)
    text_requests: list[ReceivedTextRequest] = field(default_factory=list)
    connections: int = 0

    def create_http_server(self) -> ThreadingHTTPServer:
        return ProtocolHttpServer(self, _ChatHandler)

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    @property
    def vision_settings(self) -> dict[str, str]:
        """The settings of a service whose pictures it describes."""
        return {
            "CARREL_CHAT_BASE_URL": self.base_url,
            "CARREL_CHAT_MODEL": "talker",
            "CARREL_VISION_MODEL": "looker",
        }

    def fail(self, how: ChatFailure | int, *, times: int = 1, retry_after: str | None = None) -> None:
        """Spoil the next ``times`` requests: a number is a status, "slow" never answers."""
        with self._lock:
            self._failures += [(how, retry_after)] * times

    def reset(self) -> None:
        super().reset()
        self.text_requests.clear()

    def record(
        self, request: ReceivedVisionRequest | ReceivedTextRequest
    ) -> tuple[ChatFailure | int, str | None] | None:
        """Keep a request, in ``talks`` if it has no image; return the failure of its reply."""
        if not isinstance(request, ReceivedTextRequest):
            return super().record(request)
        with self._lock:
            self.text_requests.append(request)
            return self._failures.pop(0) if self._failures else None

    def count_connection(self) -> None:
        """One more client."""
        with self._lock:
            self.connections += 1

    def wait(self, seconds: float = 60.0) -> None:
        """So long, but not beyond the server's end."""
        self.stopping.wait(seconds)

    def wait_for_text_request(self) -> None:
        """Until somebody has asked something."""
        deadline = time.monotonic() + 30
        while not self.text_requests:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def find_unsupported_feature(self, talk: ReceivedTextRequest) -> str | None:
        """What the request wants and this endpoint does not know."""
        return min(talk.features & self.unsupported_features, default=None)


class _ChatHandler(ProtocolHandler[ChatServer]):
    def setup(self) -> None:
        super().setup()
        self.served.count_connection()

    def do_POST(self) -> None:
        body = self.read_json()
        requested = _parse_request(body, self.read_headers())
        failure = self.served.record(requested)
        how, retry_after = failure or (None, None)
        self.served.wait(self.served.delay_seconds)
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"code": "not_found"}})
        elif isinstance(how, int):
            headers = {"Retry-After": retry_after} if retry_after else {}
            self.answer(how, {"error": {"message": "may repeat the input", "code": "told_to_fail"}}, headers)
        elif how == "slow":
            self.wait_without_answer()
        elif how == "disconnect":
            self.close_connection = True
        elif how == "garbage":
            self.answer(200, {"choices": [{"message": "?"}]})
        elif how == "not_json":
            self.answer(200, b"<html>welcome</html>", {"Content-Type": "text/html"})
        elif isinstance(requested, ReceivedTextRequest):
            self.answer_text(requested, how)
        else:
            self.answer(200, self.build_reply(self.served.describe_image(requested), how))

    def answer_text(self, talk: ReceivedTextRequest, how: ChatFailure | None) -> None:
        """An answer to a text: refused, whole or as a stream."""
        chat = self.served
        if lacking := chat.find_unsupported_feature(talk):
            error = {"message": "may repeat the input", "code": 400, "param": lacking if chat.has_error_param else None}
            self.answer(chat.refusal_status, {"error": error})
        elif calls := chat.tool_calls(talk):
            message = {"role": "assistant", "content": None, "tool_calls": calls}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            self.answer(200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
        elif talk.body.get("stream") and chat.can_stream:
            self.send_response_only(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.stream(chat.reply(talk), how, usage="stream_options" in talk.body)
        else:
            self.answer(200, self.build_reply(chat.reply(talk), how), broken=how == "break_off")

    def stream(self, text: str, how: ChatFailure | None, *, usage: bool) -> None:
        """The events of an answer, and what spoils them after the first word."""
        self.send_event(
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
        )
        self.write(b": still here\r\n\r\n")
        for index, word in enumerate(re.findall(r"\s*\S+\s*", "" if how in ("refusal", "empty") else text)):
            if index == 1 and how in ("stall", "break_off", "endless", "error_event"):
                self.break_stream(how)
                return
            self.served.wait(self.served.pause_seconds if index else 0.0)
            self.send_event({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
        if how != "no_end":
            delta = {"refusal": "No."} if how == "refusal" else {}
            self.send_event({"choices": [{"index": 0, "delta": delta, "finish_reason": get_finish_reason(how)}]})
            if usage:
                self.send_event({"choices": [], "usage": self.build_usage()})
            self.write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def break_stream(self, how: ChatFailure) -> None:
        """The end of a stream that does not end."""
        self.close_connection = True
        if how == "stall":
            self.wait_without_answer()
        elif how == "error_event":
            self.send_event({"error": {"message": "may repeat the input", "code": 500}})
            self.wfile.write(b"0\r\n\r\n")
        while how == "endless":
            self.send_event({"choices": [{"index": 0, "delta": {"content": "and " * 100}, "finish_reason": None}]})

    def send_event(self, payload: dict[str, Any]) -> None:
        self.write(f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode())

    def write(self, data: bytes) -> None:
        """In chunks of HTTP, which need not be those of the events."""
        size = self.served.fragment_bytes or len(data)
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def build_usage(self) -> dict[str, int] | None:
        tokens = self.served.tokens
        if tokens is None:
            return None
        return {"prompt_tokens": tokens - tokens // 4, "completion_tokens": tokens // 4, "total_tokens": tokens}

    def build_reply(self, text: str, how: ChatFailure | None) -> dict[str, Any]:
        said = None if how == "refusal" else "" if how == "empty" else text
        message = {"role": "assistant", "content": said, "refusal": "No." if how == "refusal" else None}
        return {
            "choices": [{"index": 0, "message": message, "finish_reason": get_finish_reason(how)}],
            "usage": self.build_usage(),
        }

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None, *, broken: bool = False) -> None:
        """The whole of it, or the first half and then nothing."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = data[: len(data) // 2] if broken else data
        self.send(status, sent, {"Content-Length": str(len(data)), **(headers or {})})
        self.close_connection = self.close_connection or broken


def get_finish_reason(how: ChatFailure | None) -> str:
    """Why a model has stopped."""
    return {"length": "length", "filtered": "content_filter"}.get(how or "", "stop")


def _parse_request(body: dict[str, Any], headers: dict[str, str]) -> ReceivedVisionRequest | ReceivedTextRequest:
    if isinstance(body["messages"][0]["content"], str):
        return ReceivedTextRequest(body["messages"], body, headers)
    text, image_part = body["messages"][0]["content"]
    head, _, data = image_part["image_url"]["url"].partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    return ReceivedVisionRequest(text["text"], image, head.removeprefix("data:"), body, headers)

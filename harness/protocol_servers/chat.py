"""OpenAI-compatible chat endpoint for texts and images, which can simulate the failures of real endpoints."""

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

# The second line is for texts only. "stall" and "break_off" happen in the middle of the reply, and "endless" never
# stops. "length" reports that the tokens are used up; "error_event" and "no_end" are for streams.
ChatFailure = Literal[
    "slow", "garbage", "not_json", "empty", "refusal",
    "stall", "break_off", "endless", "length", "error_event", "no_end", "disconnect", "filtered",
]  # fmt: skip
ChatFeature = Literal["json_schema", "json_object", "max_tokens", "stream_options"]


@dataclass(frozen=True, slots=True)
class ReceivedVisionRequest:
    """Received request with an image: its question and the decoded image."""

    text: str
    image: Image.Image
    media_type: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReceivedTextRequest:
    """Received request without an image."""

    messages: list[dict[str, str]]
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def last_message(self) -> str:
        """Text of the last message."""
        return self.messages[-1]["content"]

    @property
    def features(self) -> set[str]:
        """Features in the request that an endpoint may not support."""
        wanted = {self.body.get("response_format", {}).get("type"), *self.body}
        return wanted & set(get_args(ChatFeature))


def echo_message(talk: ReceivedTextRequest) -> str:
    """Return a reply that contains the last message."""
    return f"You said: {talk.last_message}"


def request_no_tools(_: ReceivedTextRequest) -> list[dict[str, Any]]:
    """Return no tool calls."""
    return []


def find_colour(image: Image.Image) -> str:
    """Return the strongest of red, green and blue in the middle of an image."""
    pixel = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    return ("red", "green", "blue")[pixel.index(max(pixel))]


def describe_colour(requested: ReceivedVisionRequest) -> str:
    """Return a description with colour and size of the image."""
    return f"A {find_colour(requested.image)} square of {requested.image.width} by {requested.image.height} dots."


@dataclass
class ChatServer(FailingServer[tuple[ChatFailure | int, str | None]]):
    """Chat endpoint at ``base_url`` while its ``with`` block runs. ``fail`` makes the next requests fail.

    Attributes:
        describe_image: Returns the description of an image.
        reply: Returns the reply to a text.
        tool_calls: Returns the tool calls to request; without any, ``reply`` is sent.
        tokens: Total number of tokens to report; None reports no usage.
        measure_tokens: Returns the tokens of a text, for requests that are no streams; None reports ``tokens``.
        unsupported_features: Features to refuse with ``refusal_status``.
        refusal_status: HTTP status for an unsupported feature.
        has_error_param: Whether the refusal names the feature.
        delay_seconds: Delay of each reply.
        pause_seconds: Pause between two words of a stream.
        fragment_bytes: Size of each write of a stream; None writes each event as a whole.
        can_stream: Whether streams are supported; otherwise the reply is sent as a whole.
        received: Received requests with images.
        text_requests: Received requests without images.
        connections: Number of connections so far.
    """

    describe_image: Callable[[ReceivedVisionRequest], str] = describe_colour
    reply: Callable[[ReceivedTextRequest], str] = echo_message
    tool_calls: Callable[[ReceivedTextRequest], list[dict[str, Any]]] = request_no_tools
    tokens: int | None = 100
    measure_tokens: Callable[[str], int] | None = None
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
        """Create the HTTP server, bound to a port and not yet serving."""
        return ProtocolHttpServer(self, _ChatHandler)

    @property
    def base_url(self) -> str:
        """Base URL of the endpoint, with ``/v1``."""
        return f"{self.address}/v1"

    @property
    def vision_settings(self) -> dict[str, str]:
        """Settings of a service that uses this endpoint for chat and for image descriptions."""
        return {
            "CARREL_CHAT_BASE_URL": self.base_url,
            "CARREL_CHAT_MODEL": "talker",
            "CARREL_VISION_MODEL": "looker",
        }

    def fail(self, how: ChatFailure | int, *, times: int = 1, retry_after: str | None = None) -> None:
        """Make the next ``times`` requests fail. A number is an HTTP status; "slow" never replies."""
        with self._lock:
            self._failures += [(how, retry_after)] * times

    def reset(self) -> None:
        """Discard the stored requests and the planned failures."""
        super().reset()
        self.text_requests.clear()

    def record(
        self, request: ReceivedVisionRequest | ReceivedTextRequest
    ) -> tuple[ChatFailure | int, str | None] | None:
        """Store a request, in ``text_requests`` if it has no image, and return the failure for its reply.

        Args:
            request: The request.

        Returns:
            The failure and its ``Retry-After``; None for a successful reply.
        """
        if not isinstance(request, ReceivedTextRequest):
            return super().record(request)
        with self._lock:
            self.text_requests.append(request)
            return self._failures.pop(0) if self._failures else None

    def count_connection(self) -> None:
        """Count one more connection."""
        with self._lock:
            self.connections += 1

    def wait(self, seconds: float = 60.0) -> None:
        """Wait, but at most until the server stops."""
        self.stopping.wait(seconds)

    def wait_for_text_request(self) -> None:
        """Wait until a request without an image has arrived, at most 30 seconds."""
        deadline = time.monotonic() + 30
        while not self.text_requests:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def find_unsupported_feature(self, talk: ReceivedTextRequest) -> str | None:
        """Return an unsupported feature of the request, or None."""
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
        """Answer a text with a refusal, with tool calls, as a whole or as a stream.

        Args:
            talk: The request.
            how: Failure of the reply.
        """
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
            reply = self.build_reply(chat.reply(talk), how)
            if chat.measure_tokens is not None:
                reply["usage"] = measure_usage(chat.measure_tokens, talk, reply["choices"][0]["message"]["content"])
            self.answer(200, reply, broken=how == "break_off")

    def stream(self, text: str, how: ChatFailure | None, *, usage: bool) -> None:
        """Send a reply as events. Some failures happen after the first word.

        Args:
            text: Text of the reply.
            how: Failure of the reply.
            usage: Whether to send the number of tokens.
        """
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
        """Interrupt a stream in the way of the failure.

        Args:
            how: The failure.
        """
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
        """Write data in HTTP chunks, whose borders may differ from those of the events.

        Args:
            data: The data.
        """
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
        """Send a whole reply, or only its first half.

        Args:
            status: HTTP status.
            body: Bytes, or an object to send as JSON.
            headers: Further headers.
            broken: Whether to send only the first half, and then close the connection.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = data[: len(data) // 2] if broken else data
        self.send(status, sent, {"Content-Length": str(len(data)), **(headers or {})})
        self.close_connection = self.close_connection or broken


def measure_usage(measure: Callable[[str], int], talk: ReceivedTextRequest, reply: str | None) -> dict[str, int]:
    """Return the usage of a request: the tokens of its messages and of its reply."""
    prompt = sum(measure(message["content"]) for message in talk.messages)
    completion = measure(reply or "")
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def get_finish_reason(how: ChatFailure | None) -> str:
    """Return the ``finish_reason`` of a reply."""
    return {"length": "length", "filtered": "content_filter"}.get(how or "", "stop")


def _parse_request(body: dict[str, Any], headers: dict[str, str]) -> ReceivedVisionRequest | ReceivedTextRequest:
    if isinstance(body["messages"][0]["content"], str):
        return ReceivedTextRequest(body["messages"], body, headers)
    text, image_part = body["messages"][0]["content"]
    head, _, data = image_part["image_url"]["url"].partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    return ReceivedVisionRequest(text["text"], image, head.removeprefix("data:"), body, headers)

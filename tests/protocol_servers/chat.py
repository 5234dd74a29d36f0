"""An OpenAI-compatible chat endpoint that looks at pictures, and fails on demand as real ones do."""

import base64
import io
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self

from PIL import Image

Failing = Literal["slow", "garbage", "not_json", "empty", "refusal"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came in: what was asked, and the picture."""

    text: str
    picture: Image.Image
    media_type: str
    body: dict[str, Any]
    headers: dict[str, str]


def colour_of(picture: Image.Image) -> str:
    """The strongest of the three colours in the middle."""
    pixel = picture.convert("RGB").getpixel((picture.width // 2, picture.height // 2))
    assert isinstance(pixel, tuple)
    return ("red", "green", "blue")[pixel.index(max(pixel))]


def says_colour(asked: Asked) -> str:
    """Tells pictures apart by what they show."""
    return f"A {colour_of(asked.picture)} square of {asked.picture.width} by {asked.picture.height} dots."


@dataclass
class ChatServer:
    """``with ChatServer() as server`` serves ``server.base_url``; ``fail`` spoils the next requests."""

    say: Callable[[Asked], str] = says_colour
    tokens: int | None = 100
    received: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._failures: list[tuple[Failing | int, str | None]] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def as_vision(self) -> dict[str, str]:
        """The settings of a service whose pictures it describes."""
        return {
            "CARREL_CHAT_BASE_URL": self.base_url,
            "CARREL_CHAT_MODEL": "talker",
            "CARREL_VISION_MODEL": "looker",
        }

    def fail(self, how: Failing | int, *, times: int = 1, retry_after: str | None = None) -> None:
        """Spoil the next ``times`` requests: a number is a status, "slow" never answers."""
        with self._lock:
            self._failures += [(how, retry_after)] * times

    def reset(self) -> None:
        """Forget what came in and what was to go wrong."""
        with self._lock:
            self.received.clear()
            self._failures.clear()

    def take(self, asked: Asked) -> tuple[Failing | int, str | None] | None:
        """Write a request down; what is to go wrong with it."""
        with self._lock:
            self.received.append(asked)
            return self._failures.pop(0) if self._failures else None

    def wait(self) -> None:
        """Until the server's end."""
        self._stopping.wait(60)


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, chat: ChatServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chat = chat

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has given up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Http

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        asked = _asked(body, {name.lower(): value for name, value in self.headers.items()})
        failure = self.server.chat.take(asked)
        how, retry_after = failure or (None, None)
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"code": "not_found"}})
        elif isinstance(how, int):
            headers = {"Retry-After": retry_after} if retry_after else {}
            self.answer(how, {"error": {"message": "may repeat the input", "code": "told_to_fail"}}, headers)
        elif how == "slow":
            self.server.chat.wait()
        elif how == "garbage":
            self.answer(200, {"choices": [{"message": "?"}]})
        elif how == "not_json":
            self.answer(200, b"<html>welcome</html>")
        else:
            self.answer(200, self.reply(asked, how))

    def reply(self, asked: Asked, how: Failing | None) -> dict[str, Any]:
        said = None if how == "refusal" else "" if how == "empty" else self.server.chat.say(asked)
        message = {"role": "assistant", "content": said, "refusal": "No." if how == "refusal" else None}
        tokens = self.server.chat.tokens
        usage = None if tokens is None else {"total_tokens": tokens}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response_only(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _asked(body: dict[str, Any], headers: dict[str, str]) -> Asked:
    text, picture = body["messages"][0]["content"]
    head, _, data = picture["image_url"]["url"].partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    return Asked(text["text"], image, head.removeprefix("data:"), body, headers)

"""An OpenAI-compatible embedding endpoint with deterministic vectors, which fails on demand as real ones do."""

import base64
import io
import json
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Literal

from PIL import Image

from harness.protocol_servers.chat import find_colour
from harness.protocol_servers.http_server import FailingServer, ProtocolHandler, ProtocolHttpServer
from harness.word_vectors import compute_text_vector, count_text_tokens

EmbeddingFailure = Literal[
    "slow",
    "short",
    "dimension",
    "nan",
    "zero",
    "garbage",
    "not_json",
    "truncated",
    "cut_off",
    "indexes",
    "disconnect",
]


IMAGE_TOKENS = 300


@dataclass(frozen=True, slots=True)
class ReceivedEmbeddingRequest:
    """A request that came in; of a picture ``inputs`` say the colour, and ``pictures`` are their bytes."""

    inputs: list[str]
    images: list[bytes]
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(slots=True)
class PlannedFailure:
    """What goes wrong, and how often yet (None for ever)."""

    how: EmbeddingFailure | int
    times: int | None
    retry_after: str | None
    seconds: float


def reply_at_once(_: ReceivedEmbeddingRequest) -> None:
    """Nothing to wait for."""


@dataclass
class EmbeddingServer(FailingServer[PlannedFailure]):
    """``with EmbeddingServer() as server`` serves ``server.base_url``; the fields may be changed while it runs.

    ``requests`` counts every request, refused ones too; ``fail`` spoils the next ones; ``before_reply`` may wait.
    """

    dimensions: int = 64
    api_key: str | None = None
    max_batch: int | None = None
    refused_word: str | None = None
    failing_word: str | None = None
    image_form: Literal["input", "messages"] | None = None
    ignores_base64: bool = False
    shuffles_results: bool = False
    reports_usage: bool = True
    latency_seconds: float = 0.0
    before_reply: Callable[[ReceivedEmbeddingRequest], None] = reply_at_once
    port: int = 0
    received: list[ReceivedEmbeddingRequest] = field(default_factory=list)

    def create_http_server(self) -> ThreadingHTTPServer:
        return ProtocolHttpServer(self, _EmbeddingHandler, port=self.port)

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    @property
    def settings(self) -> dict[str, str]:
        """Those of a service that embeds with it."""
        return {
            "CARREL_EMBEDDING_BASE_URL": self.base_url,
            "CARREL_EMBEDDING_MODEL": "words",
            "CARREL_EMBEDDING_DIMENSIONS": str(self.dimensions),
        }

    @property
    def request_count(self) -> int:
        return len(self.received)

    @property
    def batch_sizes(self) -> list[int]:
        return [len(request.inputs) for request in self.received]

    def fail(
        self,
        how: EmbeddingFailure | int,
        *,
        times: int | None = 1,
        retry_after: str | None = None,
        seconds: float = 30.0,
    ) -> None:
        """Spoil the next ``times`` requests: a number is a status, "slow" waits ``seconds`` first."""
        with self._lock:
            self._failures.append(PlannedFailure(how, times, retry_after, seconds))

    def record(self, request: ReceivedEmbeddingRequest) -> PlannedFailure | None:
        """Write a request down; what is to go wrong with it."""
        with self._lock:
            self.received.append(request)
            if not self._failures:
                return None
            failure = self._failures[0]
            if failure.times is not None:
                failure.times -= 1
                if failure.times == 0:
                    self._failures.pop(0)
            return failure

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Requests are answered when the block has ended."""
        let_go = threading.Event()

        def wait(_: ReceivedEmbeddingRequest) -> None:
            let_go.wait(60)

        self.before_reply = wait
        try:
            yield
        finally:
            self.before_reply = reply_at_once
            let_go.set()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing listens at the address until the block ends."""
        self.port = self._http.server_address[1]
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.stopping.clear()
            self.__enter__()

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond the server's end."""
        self.stopping.wait(seconds)

    def find_refusal(self, request: ReceivedEmbeddingRequest) -> tuple[int, str] | None:
        """Status and code for a request that a well-behaved endpoint refuses."""
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, "invalid_api_key"
        if self.max_batch is not None and len(request.inputs) > self.max_batch:
            return 400, "batch_too_large"
        if self.failing_word is not None and any(self.failing_word in text for text in request.inputs):
            return 500, "trips_over_it"
        if self.refused_word is not None and any(self.refused_word in text for text in request.inputs):
            return 400, "context_length_exceeded"
        if request.images and ("messages" in request.body) != (self.image_form == "messages"):
            return 400, "unknown_input"
        if request.images and self.image_form is None:
            return 400, "unknown_input"
        return (400, "empty_input") if "" in request.inputs else None

    def build_reply(self, request: ReceivedEmbeddingRequest, failure: PlannedFailure | None) -> dict[str, Any]:
        """The body of a successful answer, spoiled where it is to be."""
        how = failure.how if failure else None
        dimensions = int(request.body.get("dimensions", self.dimensions)) + (1 if how == "dimension" else 0)
        vectors = [compute_text_vector(text, dimensions) for text in request.inputs]
        if how == "nan":
            vectors[-1][0] = math.nan
        if how == "zero":
            vectors[-1] = [0.0] * dimensions
        lists = self.ignores_base64 or request.body.get("encoding_format") != "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": vector if lists else _encode_base64(vector)}
            for index, vector in enumerate(vectors)
        ]
        if how == "short":
            data.pop()
        if how == "indexes":
            data[-1]["index"] = len(data) + 7
        if self.shuffles_results:
            data.reverse()
        texts = () if request.images else request.inputs
        tokens = sum(map(count_text_tokens, texts)) + IMAGE_TOKENS * len(request.images)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens} if self.reports_usage else None
        return {"object": "list", "model": request.body.get("model"), "data": data, "usage": usage}


class _EmbeddingHandler(ProtocolHandler[EmbeddingServer]):
    def do_POST(self) -> None:
        endpoint = self.served
        body = self.read_json()
        inputs, images = _read_inputs(body)
        headers = self.read_headers()
        request = ReceivedEmbeddingRequest(inputs, images, body, headers)
        failure = endpoint.record(request)
        endpoint.before_reply(request)
        endpoint.wait(endpoint.latency_seconds)
        if self.path != "/v1/embeddings":
            self.refuse(404, "not_found", None)
        elif (refusal := endpoint.find_refusal(request)) is not None:
            self.refuse(*refusal, None)
        elif failure is None or not self.send_failure(failure):
            self.send_reply(json.dumps(endpoint.build_reply(request, failure)).encode(), failure)

    def send_failure(self, failure: PlannedFailure) -> bool:
        """Fail outside the reply; whether there is nothing more to say."""
        if isinstance(failure.how, int):
            self.refuse(failure.how, "told_to_fail", failure.retry_after)
        elif failure.how == "disconnect":
            self.close_connection = True
        elif failure.how == "garbage":
            self.send(200, b'{"data": [{"embedding": "?"}]}')
        elif failure.how == "not_json":
            self.send(200, b"<html>welcome</html>", {"Content-Type": "text/html"})
        elif failure.how == "slow":
            started = time.monotonic()
            self.served.wait(failure.seconds)
            return time.monotonic() - started < failure.seconds
        else:
            return False
        return True

    def send_reply(self, body: bytes, failure: PlannedFailure | None) -> None:
        """The whole of it, the first half as if that were all, or the first half and then nothing."""
        how = failure.how if failure else None
        if how == "cut_off":
            self.close_connection = True
        sent = body[: len(body) // 2] if how in ("truncated", "cut_off") else body
        self.send(200, sent, {"Content-Length": str(len(body))} if how == "cut_off" else {})

    def refuse(self, status: int, code: str, retry_after: str | None) -> None:
        error = {"message": "a message that may repeat the input", "type": "error", "param": None, "code": code}
        headers = {"Retry-After": retry_after} if retry_after is not None else {}
        self.send(status, json.dumps({"error": error}).encode(), headers)


def _encode_base64(vector: list[float]) -> str:
    return base64.b64encode(array("f", vector).tobytes()).decode()


def _read_inputs(body: dict[str, Any]) -> tuple[list[str], list[bytes]]:
    """Texts, or the colours of pictures with their bytes: a picture is close to the text that names its colour."""
    inputs = body.get("input", [])
    if isinstance(inputs, str):
        return [inputs], []
    encoded = [item["image"] for item in inputs if isinstance(item, dict)]
    for message in body.get("messages", []):
        (part,) = message["content"]
        head, _, data = part["image_url"]["url"].partition(";base64,")
        assert head in ("data:image/png", "data:image/jpeg")
        encoded.append(data)
    images = [base64.b64decode(data, validate=True) for data in encoded]
    if not images:
        return list(inputs), []
    return [find_colour(Image.open(io.BytesIO(data))) for data in images], images

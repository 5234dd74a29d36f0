"""OpenAI-compatible embedding endpoint with deterministic vectors, which can simulate failures of real endpoints."""

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
    """Received request. For an image, ``inputs`` has the name of its colour and ``images`` has its bytes."""

    inputs: list[str]
    images: list[bytes]
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(slots=True)
class PlannedFailure:
    """Failure of the next requests. ``times`` is the number of requests left; None means all requests."""

    how: EmbeddingFailure | int
    times: int | None
    retry_after: str | None
    seconds: float


def reply_at_once(_: ReceivedEmbeddingRequest) -> None:
    """Return at once."""


@dataclass
class EmbeddingServer(FailingServer[PlannedFailure]):
    """Embedding endpoint at ``base_url`` while its ``with`` block runs. Tests may change its fields at any time.

    Attributes:
        dimensions: Number of dimensions if the request has none.
        api_key: Required API key; None requires none.
        max_batch: Maximum number of inputs in a request; None sets none.
        refused_word: Texts with this word are refused as too long.
        failing_word: Texts with this word make the request fail with status 500.
        image_form: Form in which images are accepted; None refuses images.
        ignores_base64: Whether vectors are sent as lists although the request asks for base64.
        shuffles_results: Whether results are sent in reverse order.
        reports_usage: Whether the number of tokens is sent.
        latency_seconds: Delay of each reply.
        before_reply: Function to call before each reply; it may wait.
        port: Port to listen on; 0 uses a free port.
        received: All requests, including refused ones.
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
        """Create the HTTP server, bound to ``port`` and not yet serving."""
        return ProtocolHttpServer(self, _EmbeddingHandler, port=self.port)

    @property
    def base_url(self) -> str:
        """Base URL of the endpoint, with ``/v1``."""
        return f"{self.address}/v1"

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a service that uses this endpoint."""
        return {
            "CARREL_EMBEDDING_BASE_URL": self.base_url,
            "CARREL_EMBEDDING_MODEL": "words",
            "CARREL_EMBEDDING_DIMENSIONS": str(self.dimensions),
        }

    @property
    def request_count(self) -> int:
        """Number of requests, including refused ones."""
        return len(self.received)

    @property
    def batch_sizes(self) -> list[int]:
        """Number of inputs in each request."""
        return [len(request.inputs) for request in self.received]

    def fail(
        self,
        how: EmbeddingFailure | int,
        *,
        times: int | None = 1,
        retry_after: str | None = None,
        seconds: float = 30.0,
    ) -> None:
        """Make the next requests fail.

        Args:
            how: Failure; a number is an HTTP status.
            times: Number of requests; None means all.
            retry_after: Header ``Retry-After`` of the failure.
            seconds: Delay of the failure "slow", after which the reply succeeds.
        """
        with self._lock:
            self._failures.append(PlannedFailure(how, times, retry_after, seconds))

    def record(self, request: ReceivedEmbeddingRequest) -> PlannedFailure | None:
        """Store a request and return the failure for its reply.

        Args:
            request: The request.

        Returns:
            The failure; None for a successful reply.
        """
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
        """Hold back all replies until the block ends."""
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
        """Close the port until the block ends."""
        self.port = self._http.server_address[1]
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.stopping.clear()
            self.__enter__()

    def wait(self, seconds: float) -> None:
        """Wait, but at most until the server stops."""
        self.stopping.wait(seconds)

    def find_refusal(self, request: ReceivedEmbeddingRequest) -> tuple[int, str] | None:
        """Return why a correct endpoint would refuse the request.

        Args:
            request: The request.

        Returns:
            Status and error code; None if the request is accepted.
        """
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
        """Build the body of a reply with status 200, with the fault of the failure.

        Args:
            request: The request.
            failure: The failure.

        Returns:
            The body.
        """
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
        """Send a failure that replaces the reply.

        Args:
            failure: The failure.

        Returns:
            Whether the request is finished; otherwise a reply must follow.
        """
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
        """Send a reply.

        Args:
            body: Body of the reply.
            failure: "truncated" sends the first half as a complete body; "cut_off" sends the first half of a body with
                the full content length.
        """
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
    """Return texts, or colours and bytes of images.

    The vector of an image is that of its colour's name, so an image is similar to a text that contains the name.
    """
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

"""Rerank endpoints of four APIs. They score texts by the words of the query and can simulate failures."""

import json
import math
import re
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Literal

from harness.protocol_servers.http_server import FailingServer, ProtocolHandler, ProtocolHttpServer

RerankStyle = Literal["tei", "cohere", "jina", "vllm"]
RerankFailure = Literal[
    "never",
    "late",
    "drip",
    "disconnect",
    "redirect",
    "not_json",
    "deep",
    "wrong_shape",
    "huge",
    "indexes",
    "from_one",
    "negative",
    "duplicates",
    "text_scores",
    "nan",
    "infinity",
    "null",
    "all_null",
    "enormous",
    "short",
    "empty",
]
# Fields that each API accepts in addition to the query and the texts.
OPTIONAL_FIELDS: dict[RerankStyle, set[str]] = {
    "tei": {"truncate", "raw_scores", "return_text", "truncation_direction"},
    "cohere": {"model", "top_n", "max_tokens_per_doc"},
    "jina": {"model", "top_n", "return_documents"},
    "vllm": {"model", "top_n", "truncate_prompt_tokens"},
}
FAILING_SCORES: dict[RerankFailure, Any] = {
    "nan": math.nan,
    "infinity": -math.inf,
    "null": None,
    "enormous": 10**400,
    "text_scores": "high",
}


def compute_relevance(query: str, text: str) -> float:
    """Return the share of the query's words that the text contains."""
    requested, there = (set(re.findall(r"\w+", item.lower())) for item in (query, text))
    return len(requested & there) / len(requested)


@dataclass(frozen=True, slots=True)
class ReceivedRerankRequest:
    """Received request."""

    query: str
    texts: list[str]
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class RerankServer(FailingServer[tuple[RerankFailure | int, str | None]]):
    """Rerank endpoint at ``url`` while its ``with`` block runs. ``fail`` makes the next requests fail.

    Attributes:
        style: API of the endpoint.
        api_key: Required API key; None requires none.
        max_documents: Maximum number of texts; more are refused with ``too_large_status``.
        max_characters: Maximum length of a text; a longer one is refused with ``too_large_status``.
        too_large_status: HTTP status of these refusals.
        received: Received requests.
    """

    style: RerankStyle = "cohere"
    api_key: str | None = None
    max_documents: int | None = None
    max_characters: int | None = None
    too_large_status: int = 422
    received: list[ReceivedRerankRequest] = field(default_factory=list)

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""
        return ProtocolHttpServer(self, _RerankHandler)

    @property
    def url(self) -> str:
        """Address of the endpoint."""
        return f"{self.address}/rerank"

    @property
    def request_sizes(self) -> list[int]:
        """Number of texts in each request."""
        return [len(request.texts) for request in self.received]

    def fail(self, how: RerankFailure | int, *, times: int = 1, retry_after: str | None = None) -> None:
        """Make the next requests fail. A number is an HTTP status; "late" replies when ``released`` is set."""
        with self._lock:
            self._failures += [(how, retry_after)] * times

    def find_refusal(self, request: ReceivedRerankRequest) -> int | None:
        """Return the HTTP status if a correct endpoint of this API would refuse the request.

        Args:
            request: The request.

        Returns:
            The status; None if the request is accepted.
        """
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401
        named = {"query", "texts" if self.style == "tei" else "documents"}
        if not named <= request.body.keys() <= named | OPTIONAL_FIELDS[self.style]:
            return 400
        if not request.texts or any(not text.strip() for text in request.texts):
            return 400
        if self.max_documents is not None and len(request.texts) > self.max_documents:
            return self.too_large_status
        if self.max_characters is not None and max(map(len, request.texts)) > self.max_characters:
            return self.too_large_status
        return None

    def build_reply(self, request: ReceivedRerankRequest, how: RerankFailure | None) -> Any:
        """Build the body of a reply with status 200, best text first, with the fault of the failure.

        Args:
            request: The request.
            how: The failure.

        Returns:
            The body.
        """
        name = "score" if self.style == "tei" else "relevance_score"
        result = [
            {"index": index, name: compute_relevance(request.query, text), **self._build_document_field(request, text)}
            for index, text in enumerate(request.texts)
        ]
        result.sort(key=lambda entry: -entry[name])
        _corrupt_results(result, how, name)
        result = result[: request.body.get("top_n", len(result))]
        return result if self.style == "tei" else {"id": "an-id", "results": result, "usage": {"total_tokens": 1}}

    def _build_document_field(self, request: ReceivedRerankRequest, text: str) -> dict[str, Any]:
        """Return the field with the text: vLLM always sends it, Jina unless the request says otherwise."""
        shows = self.style == "vllm" or (self.style == "jina" and request.body.get("return_documents", True))
        return {"document": {"text": text}} if shows else {}


def _corrupt_results(result: list[dict[str, Any]], how: RerankFailure | None, name: str) -> None:
    indexes = {"indexes": len(result) + 7, "negative": -1, "duplicates": result[0]["index"]}
    if how in indexes:
        result[-1]["index"] = indexes[how]
    elif how == "from_one":
        for entry in result:
            entry["index"] += 1
    elif how in FAILING_SCORES:
        result[0][name] = FAILING_SCORES[how]
    elif how == "all_null":
        for entry in result:
            entry[name] = None
    elif how == "short":
        del result[1:]
    elif how == "empty":
        result.clear()


class _RerankHandler(ProtocolHandler[RerankServer]):
    def do_POST(self) -> None:
        rerank = self.served
        body = self.read_json()
        headers = self.read_headers()
        request = ReceivedRerankRequest(body["query"], body.get("texts") or body.get("documents") or [], body, headers)
        how, retry_after = rerank.record(request) or (None, None)
        if self.path != "/rerank":
            self.refuse(404)
        elif (status := rerank.find_refusal(request)) is not None:
            self.refuse(status)
        elif isinstance(how, int):
            self.refuse(how, {"Retry-After": retry_after} if retry_after else {})
        elif not self.send_failure(how):
            self.send(200, json.dumps(rerank.build_reply(request, how)).encode())

    def send_failure(self, how: RerankFailure | None) -> bool:
        """Send a failure that replaces the reply.

        Args:
            how: The failure.

        Returns:
            Whether the request is finished; otherwise a reply must follow.
        """
        if how == "disconnect":
            self.close_connection = True
        elif how == "redirect":
            self.send(307, b"", {"Location": self.served.url})
        elif how == "not_json":
            self.send(200, b"<html>welcome</html>")
        elif how == "deep":
            self.send(200, b"[" * 50_000)
        elif how == "wrong_shape":
            self.send(200, b'{"data": [0.3, 0.1]}')
        elif how == "huge":
            self.send(200, b" " * 4_000_000 + b"[]")
        elif how in ("never", "drip"):
            self.wait_without_answer(drips=how == "drip")
        else:
            if how == "late":
                self.served.released.wait(30)
            return False
        return True

    def refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps({"error": "a message that may repeat the input"}).encode(), headers)

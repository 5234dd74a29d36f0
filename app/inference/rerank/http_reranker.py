"""Reranker behind an HTTP endpoint: a call has a hard time limit, and answers are limited in size and checked."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from app.inference.circuit_breaker import CircuitBreaker, EndpointFailed
from app.inference.rerank import RerankUnavailable
from app.inference.rerank.dialect import RerankDialect, RerankRequest
from app.inference.rerank.response import parse_scores

# Seconds after which a cancelled call counts as a failure of the endpoint. A search cancels its call long before the
# endpoint reports a timeout.
HANG_TIMEOUT_SECONDS = 0.5
# Status codes for a request that is too large.
TOO_LARGE_STATUS_CODES = frozenset({413, 422})
# Status codes for which a retry may help. TEI returns 424 if the model failed.
RETRYABLE_STATUS_CODES = frozenset({408, 424, 425})
# Some endpoints repeat the texts in the reply, and JSON may escape a character as six characters.
BASE_ANSWER_BYTES, ANSWER_BYTES_PER_REQUEST_BYTE = 64 * 1024, 6
# Errors of a pooled connection that the server has closed.
STALE_CONNECTION_ERRORS = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
NUMBER_PATTERN = re.compile(r"\d{1,4}")


class RerankInputTooLarge(RerankUnavailable):
    """The reranker takes fewer or shorter texts: see CARREL_RERANK_MAX_DOCUMENTS and CARREL_RERANK_MAX_CHARACTERS."""


class HttpReranker:
    """Reranker that sends one POST request for each batch of texts.

    A batch that is too large is halved once. If both halves succeed, their size becomes the limit.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        dialect: RerankDialect,
        *,
        model: str | None,
        max_documents: int | None,
        max_characters: int,
    ) -> None:
        """Create a reranker.

        Args:
            url: URL of the endpoint.
            api_key: API key; None if the endpoint needs none.
            dialect: Format of requests and answers.
            model: Name of the model; None if the endpoint has only one.
            max_documents: Maximum number of texts of a request; None uses the limit of the dialect.
            max_characters: Number of characters to which texts are cut.
        """
        # Answers must not be compressed, so that a small answer cannot unpack to a large one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # The client has no timeouts, because the caller limits the whole call. It follows no redirects.
        self._client = httpx2.AsyncClient(headers=headers, timeout=None)
        self._url = url
        self._dialect = dialect
        self._model = model
        self._max_documents = max_documents or dialect.max_documents
        self._max_characters = max_characters
        self._breaker = CircuitBreaker("rerank", RerankUnavailable)

    @property
    def circuit_breaker(self) -> CircuitBreaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

    @property
    def name(self) -> str:
        """Name of the configured model, or host of the endpoint."""
        return self._model or httpx2.URL(self._url).host

    async def rerank(
        self, query: str, texts: Sequence[str], *, top_n: int, timeout_seconds: float
    ) -> Mapping[int, float]:
        """Score texts as ``Reranker.rerank`` does; blank texts get no score."""
        truncated_query = self._truncate(query)
        positions = [position for position, text in enumerate(texts) if text.strip()]
        if not truncated_query or not positions:
            return {}
        try:
            async with asyncio.timeout(timeout_seconds):
                scores = await self._score_all(
                    truncated_query, [self._truncate(texts[position]) for position in positions], top_n
                )
        except TimeoutError as exc:
            raise RerankUnavailable("The reranker gave no answer in time.", reason="timeout") from exc
        return {positions[index]: score for index, score in scores.items()}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _truncate(self, text: str) -> str:
        """Remove leading white space, truncate, and replace lone surrogates, which no endpoint can encode."""
        return text.lstrip()[: self._max_characters].encode("utf-8", "replace").decode()

    async def _score_all(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        """Score one batch after the other, so that a search cannot fill the model's queue and delay other searches."""
        scores: dict[int, float] = {}
        start = 0
        while start < len(texts):
            batch = texts[start : start + self._max_documents]
            batch_scores = await self._score_batch(query, batch, top_n)
            scores |= {start + index: score for index, score in batch_scores.items()}
            start += len(batch)
        return scores

    async def _score_batch(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        try:
            return await self._request_scores(query, texts, top_n)
        except RerankInputTooLarge:
            if len(texts) == 1:
                raise
        half = (len(texts) + 1) // 2
        first = await self._request_scores(query, texts[:half], top_n)
        second = await self._request_scores(query, texts[half:], top_n)
        # Both halves succeeded, so the batch was too large; no single text was at fault.
        self._max_documents = min(self._max_documents, half)
        return first | {half + index: score for index, score in second.items()}

    async def _request_scores(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        """Request the scores of one batch: the only place that calls the endpoint. Raises RerankUnavailable."""
        request = RerankRequest(self._model, query, texts, min(top_n, len(texts)))
        body = json.dumps(self._dialect.build_body(request), ensure_ascii=False).encode()
        try:
            with self._breaker.call(hang_timeout_seconds=HANG_TIMEOUT_SECONDS):
                return parse_scores(await self._request_json(body), self._dialect, len(texts))
        except EndpointFailed as exc:
            retry_after = max(2.0, exc.retry_after or 0.0)
            if exc.kind == "rate_limited" and exc.retry_after:
                self._breaker.pause(exc.retry_after)
            raise RerankUnavailable(f"The reranker failed: {exc}.", reason=exc.kind, retry_after=retry_after) from exc

    async def _request_json(self, body: bytes) -> Any:
        """Return the decoded answer. Raises EndpointFailed, and RerankUnavailable for a refusal."""
        try:
            try:
                answer = await self._post(body)
            except STALE_CONNECTION_ERRORS:
                answer = await self._post(body)
            return json.loads(answer)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EndpointFailed("no connection", kind="unreachable") from exc
        except (ValueError, RecursionError) as exc:
            raise EndpointFailed("the answer is not JSON") from exc

    async def _post(self, body: bytes) -> bytes:
        """Return the body of a successful answer. Raises the errors of ``_request_json``, and httpx2.HTTPError."""
        max_bytes = BASE_ANSWER_BYTES + ANSWER_BYTES_PER_REQUEST_BYTE * len(body)
        answer = bytearray()
        async with self._client.stream("POST", self._url, content=body) as reply:
            if reply.status_code != httpx2.codes.OK:  # redirects too: only the configured endpoint gets texts
                raise _create_failure(reply)
            async for part in reply.aiter_raw():
                answer += part
                if len(answer) > max_bytes:
                    raise EndpointFailed("the answer is too long")
        return bytes(answer)


def _create_failure(reply: httpx2.Response) -> EndpointFailed | RerankUnavailable:
    """Create the error of a failure or a refusal, without the endpoint's message, which may repeat the texts."""
    status = reply.status_code
    if status in TOO_LARGE_STATUS_CODES:
        return RerankInputTooLarge(reason="refused")
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        return EndpointFailed("HTTP 429", _parse_retry_after(reply), kind="rate_limited")
    if status >= 500 or status in RETRYABLE_STATUS_CODES:
        return EndpointFailed(f"HTTP {status}", _parse_retry_after(reply), kind="failed")
    hint = {
        401: "check CARREL_RERANK_API_KEY",
        403: "check what CARREL_RERANK_API_KEY may do",
        404: "check CARREL_RERANK_URL and CARREL_RERANK_MODEL",
    }.get(status, "check CARREL_RERANK_URL and CARREL_RERANK_API")
    return RerankUnavailable(f"The reranker refuses (HTTP {status}): {hint}.", reason="refused")


def _parse_retry_after(reply: httpx2.Response) -> float | None:
    """Return the seconds of a Retry-After header, or None if its value is not a number."""
    value = reply.headers.get("retry-after", "")
    return float(value) if NUMBER_PATTERN.fullmatch(value) else None

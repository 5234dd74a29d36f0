"""A reranker behind a configured HTTP endpoint: one hard limit in time, answers bounded and checked."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from app.inference.breaker import Breaker, EndpointFailed
from app.inference.rerank import RerankUnavailable
from app.inference.rerank.reading import read_answer
from app.inference.rerank.wire import Asked, Wire

# A search gives up long before an endpoint does: from so many seconds on that counts as a failure of the endpoint.
HANGS_AFTER = 0.5
# What a server says when a request is too large for it.
TOO_LARGE = frozenset({413, 422})
# Later it may work: 424 is TEI's word for a model that failed.
PASSING = frozenset({408, 424, 425})
# Some send the texts back, and JSON may write each character as six.
LEAST_BYTES, BYTES_FOR_A_BYTE = 64 * 1024, 6
# What a connection that was kept may die of when the server has closed it meanwhile.
STALE = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
NUMBER = re.compile(r"\d{1,4}")


class TooLargeForIt(RerankUnavailable):
    """The reranker takes fewer or shorter texts: see CARREL_RERANK_MAX_DOCUMENTS and CARREL_RERANK_MAX_CHARACTERS."""


class HttpReranker:
    """A Reranker over one POST for each batch of texts.

    A batch that is too large is halved once; when both halves pass, their size is the limit from then on.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        wire: Wire,
        *,
        model: str | None,
        max_documents: int | None,
        max_characters: int,
    ) -> None:
        """Texts are cut to ``max_characters``; without ``max_documents`` the wire's own limit holds."""
        # Not compressed: a small answer must not become a large one.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        # Without limits of its own, since whoever calls sets one for the whole; and it follows no redirects.
        self._client = httpx2.AsyncClient(headers=headers, timeout=None)
        self._url = url
        self._wire = wire
        self._model = model
        self._most = max_documents or wire.most_documents
        self._max_characters = max_characters
        self._breaker = Breaker("rerank", RerankUnavailable)

    @property
    def circuit_breaker(self) -> Breaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

    @property
    def name(self) -> str:
        """The model's name where one is configured, else the endpoint's host."""
        return self._model or httpx2.URL(self._url).host

    async def rerank(self, query: str, texts: Sequence[str], *, top_n: int, seconds: float) -> Mapping[int, float]:
        """Scores by position; blank texts get none. Raises RerankUnavailable."""
        asked = self._cut(query)
        positions = [position for position, text in enumerate(texts) if text.strip()]
        if not asked or not positions:
            return {}
        try:
            async with asyncio.timeout(seconds):
                found = await self._all(asked, [self._cut(texts[position]) for position in positions], top_n)
        except TimeoutError as exc:
            raise RerankUnavailable("The reranker gave no answer in time.", reason="timeout") from exc
        return {positions[place]: score for place, score in found.items()}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _cut(self, text: str) -> str:
        """Beginning with what is in it; no endpoint can encode a lone surrogate."""
        return text.lstrip()[: self._max_characters].encode("utf-8", "replace").decode()

    async def _all(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        """One batch after the other: they share one model, and a search that fills its queue delays all others."""
        scores: dict[int, float] = {}
        start = 0
        while start < len(texts):
            batch = texts[start : start + self._most]
            found = await self._batch(query, batch, top_n)
            scores |= {start + place: score for place, score in found.items()}
            start += len(batch)
        return scores

    async def _batch(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        try:
            return await self._ask(query, texts, top_n)
        except TooLargeForIt:
            if len(texts) == 1:
                raise
        half = (len(texts) + 1) // 2
        first = await self._ask(query, texts[:half], top_n)
        second = await self._ask(query, texts[half:], top_n)
        # Both passed where the whole did not: so it was the number, and not one bad text.
        self._most = min(self._most, half)
        return first | {half + place: score for place, score in second.items()}

    async def _ask(self, query: str, texts: Sequence[str], top_n: int) -> dict[int, float]:
        """One request and its answer: the one place where the endpoint is called. Raises RerankUnavailable."""
        asked = Asked(self._model, query, texts, min(top_n, len(texts)))
        body = json.dumps(self._wire.body(asked), ensure_ascii=False).encode()
        try:
            with self._breaker.call(hangs_after=HANGS_AFTER):
                return read_answer(await self._answer(body), self._wire, len(texts))
        except EndpointFailed as exc:
            wait = max(2.0, exc.retry_after or 0.0)
            if exc.kind == "rate_limited" and exc.retry_after:
                self._breaker.rest(exc.retry_after)
            raise RerankUnavailable(f"The reranker failed: {exc}.", reason=exc.kind, retry_after=wait) from exc

    async def _answer(self, body: bytes) -> Any:
        """Decoded. Raises EndpointFailed, and RerankUnavailable for a refusal."""
        try:
            try:
                answer = await self._post(body)
            except STALE:
                answer = await self._post(body)
            return json.loads(answer)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EndpointFailed("no connection", kind="unreachable") from exc
        except (ValueError, RecursionError) as exc:
            raise EndpointFailed("it is no JSON") from exc

    async def _post(self, body: bytes) -> bytes:
        """What the endpoint says, if it is a success. Raises as ``_answer``, and httpx2.HTTPError."""
        most = LEAST_BYTES + BYTES_FOR_A_BYTE * len(body)
        answer = bytearray()
        async with self._client.stream("POST", self._url, content=body) as reply:
            if reply.status_code != httpx2.codes.OK:  # a redirect as well: whom to ask is configured
                raise _failure(reply)
            async for part in reply.aiter_raw():
                answer += part
                if len(answer) > most:
                    raise EndpointFailed("its answer is too long")
        return bytes(answer)


def _failure(reply: httpx2.Response) -> EndpointFailed | RerankUnavailable:
    """What another try may mend, or a refusal, in our own words: an endpoint's may repeat the texts."""
    status = reply.status_code
    if status in TOO_LARGE:
        return TooLargeForIt(reason="refused")
    if status == httpx2.codes.TOO_MANY_REQUESTS:
        return EndpointFailed("HTTP 429", _retry_after(reply), kind="rate_limited")
    if status >= 500 or status in PASSING:
        return EndpointFailed(f"HTTP {status}", _retry_after(reply), kind="failed")
    hint = {
        401: "check CARREL_RERANK_API_KEY",
        403: "check what CARREL_RERANK_API_KEY may do",
        404: "check CARREL_RERANK_URL and CARREL_RERANK_MODEL",
    }.get(status, "check CARREL_RERANK_URL and CARREL_RERANK_STYLE")
    return RerankUnavailable(f"The reranker refuses (HTTP {status}): {hint}.", reason="refused")


def _retry_after(reply: httpx2.Response) -> float | None:
    """Seconds that the server asks for, where it says a number of them."""
    value = reply.headers.get("retry-after", "")
    return float(value) if NUMBER.fullmatch(value) else None

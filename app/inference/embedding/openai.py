"""Any other embedding model behind an OpenAI-compatible endpoint: learned batches, bounded retries, checked replies."""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import time

import numpy as np
from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, Timeout, omit

from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected, EmbeddingUnavailable, Vectors
from app.inference.embedding.openai_reply import UnusableReply, read_reply

FIRST_BATCH = 64
# Providers refuse requests over a total of 120,000 to 300,000 tokens; the estimate below errs upwards.
BATCH_TOKENS = 100_000
CONNECT_SECONDS = 5.0
# What a server says when a request is too large for it. The same numbers also mean a text that it does not take, and
# only halving tells the two apart.
TOO_LARGE = frozenset({400, 413, 422})
WORTH_RETRYING = frozenset({408, 409, 425, 429})
ASCII_OR_TWO_BYTES = bytes(range(0xE0))
CODE = re.compile(r"[A-Za-z0-9_.-]{1,40}")
NUMBER = re.compile(r"\d{1,9}(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a request is made, and how many seconds may lie before the next one."""

    attempts: int
    first_delay: float
    longest_delay: float


DOCUMENTS = Patience(attempts=5, first_delay=0.5, longest_delay=30.0)
# Someone waits for a query, within a budget of a few seconds.
QUERIES = Patience(attempts=2, first_delay=0.1, longest_delay=0.5)


class OpenAIEmbedder:
    """An Embedder over ``POST {base_url}/embeddings``.

    A batch that is refused is halved; when both halves pass, their size is the limit from then on. The limit is kept
    for the life of the process and never grown again: a guess upwards costs a request each time, a small batch little.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        model: str,
        dimensions: int,
        *,
        send_dimensions: bool,
        max_tokens: int,
        query_prefix: str,
        document_prefix: str,
        timeout_seconds: float,
    ) -> None:
        """``send_dimensions`` asks a Matryoshka model for that many; ``max_tokens`` is the longest text it reads."""
        # The package would fill in these from the environment, which belongs to other programs; and a key left out here
        # is one that the endpoint does not need.
        self._headers = {"OpenAI-Organization": omit, "OpenAI-Project": omit}
        if not api_key:
            self._headers["Authorization"] = omit
        self._client = AsyncOpenAI(
            base_url=base_url,
            api_key=api_key or "none",
            timeout=Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
            max_retries=0,
        )
        self._identity = EmbeddingIdentity(model, dimensions, "remote", query_prefix, document_prefix)
        self._dimensions = dimensions if send_dimensions else omit
        self._max_tokens = max_tokens
        self._batch = FIRST_BATCH

    @property
    def identity(self) -> EmbeddingIdentity:
        """The identity of every vector it makes; its precision is the endpoint's affair and reads ``remote``."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """The longest input, as configured."""
        return self._max_tokens

    @property
    def special_tokens(self) -> int:
        """What BERT-like models add; others add less, which errs on the safe side."""
        return 2

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Bulk work in batches, with patience; shape (len(texts), dimensions).

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected; the last has ``fields["index"]``, a position
        in ``texts``, where one text was refused by itself.
        """
        return await self._embed_all(texts, self._identity.document_prefix, DOCUMENTS)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Interactive work: one quick retry at most. Shape and errors as ``embed_documents``."""
        return await self._embed_all(texts, self._identity.query_prefix, QUERIES)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """An upper estimate from the length in UTF-8: a token a three bytes, a token a two bytes above U+07FF.

        English runs at four to five bytes a token in every common tokenizer, other alphabets at three to five, Chinese,
        Japanese and Korean at two to three, emoji at one to two. Counting bytes keeps the order right for all of them
        without the tokenizer of a model that is not known; a text for which it is still too low (random characters) is
        one that the endpoint may refuse.
        """
        return [_estimate(text) for text in texts]

    async def check(self) -> None:
        """Embed one word. Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected."""
        await self.embed_queries(["word"])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed_all(self, texts: Sequence[str], prefix: str, patience: Patience) -> Vectors:
        # Endpoints refuse an empty text, and none can encode a lone surrogate.
        inputs = [(prefix + text).encode("utf-8", "replace").decode() or " " for text in texts]
        vectors = np.empty((len(inputs), self._identity.dimensions), np.float32)
        for start, end in _batches(inputs):
            await self._embed_batch(inputs, vectors, start, end, patience)
        return vectors

    async def _embed_batch(self, inputs: list[str], vectors: Vectors, start: int, end: int, patience: Patience) -> None:
        size = self._batch
        if end - start > size:
            for at in range(start, end, size):
                await self._embed_batch(inputs, vectors, at, min(at + size, end), patience)
            return
        try:
            vectors[start:end] = await self._request(inputs[start:end], patience)
        except APIStatusError as exc:
            if exc.status_code not in TOO_LARGE:
                raise _rejected(exc) from exc
            if end - start == 1:
                raise _rejected(exc, index=start) from exc
        else:
            return
        half = (end - start + 1) // 2
        await self._embed_batch(inputs, vectors, start, start + half, patience)
        await self._embed_batch(inputs, vectors, start + half, end, patience)
        # Both passed where the whole did not: so it was the size, and not one bad text.
        self._batch = min(self._batch, half)

    async def _request(self, inputs: list[str], patience: Patience) -> Vectors:
        """One batch, with retries. Raises EmbeddingUnavailable, EmbeddingMismatch, and APIStatusError for a refusal."""
        for attempt in range(1, patience.attempts + 1):
            try:
                return await self._post(inputs)
            except (APIError, UnusableReply) as exc:
                if _is_refusal(exc):
                    raise
                asked = _retry_after(exc)
                delay = _delay(patience, attempt, asked)
                if attempt == patience.attempts or delay > patience.longest_delay:
                    raise EmbeddingUnavailable(
                        f"The embedding endpoint failed: {_reason(exc)}.", retry_after=max(2.0, asked or 0.0)
                    ) from exc
            await asyncio.sleep(delay)
        raise AssertionError("a last attempt returns or raises")

    async def _post(self, inputs: list[str]) -> Vectors:
        # The raw reply: the package turns base64 into lists of Python floats, and checks nothing.
        reply = await self._client.embeddings.with_raw_response.create(
            input=inputs,
            model=self._identity.model,
            dimensions=self._dimensions,
            encoding_format="base64",
            extra_headers=self._headers,
        )
        try:
            payload = reply.http_response.json()
        except ValueError as exc:
            raise UnusableReply("it is no JSON") from exc
        return read_reply(payload, len(inputs), self._identity.dimensions)


def _batches(inputs: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Spans of the inputs that hold at most BATCH_TOKENS, or one text."""
    start = total = 0
    for position, text in enumerate(inputs):
        tokens = _estimate(text)
        if position > start and total + tokens > BATCH_TOKENS:
            yield start, position
            start, total = position, 0
        total += tokens
    if inputs:
        yield start, len(inputs)


def _estimate(text: str) -> int:
    if text.isascii():
        return -(-len(text) // 3)
    encoded = text.encode("utf-8", "replace")
    leads = encoded.translate(None, ASCII_OR_TWO_BYTES)  # the first bytes of what takes three or four
    four = sum(lead >= 0xF0 for lead in leads)
    wide = 3 * len(leads) + four
    return -(-(2 * (len(encoded) - wide) + 3 * wide) // 6)


def _is_refusal(error: Exception) -> bool:
    """Whether the endpoint understood the request and will not serve it, now or later."""
    return isinstance(error, APIStatusError) and error.status_code < 500 and error.status_code not in WORTH_RETRYING


def _reason(error: Exception) -> str:
    """Never the server's own words, which may repeat the text."""
    if isinstance(error, APIStatusError):
        return f"HTTP {error.status_code}"
    if isinstance(error, APITimeoutError):
        return "no answer in time"
    if isinstance(error, APIConnectionError):
        return "no connection"
    return str(error) if isinstance(error, UnusableReply) else "no usable answer"


def _rejected(error: APIStatusError, **fields: int) -> EmbeddingRejected:
    code = f", {error.code}" if error.code and CODE.fullmatch(error.code) else ""
    hint = {
        401: "check CARREL_EMBEDDING_API_KEY",
        403: "check what CARREL_EMBEDDING_API_KEY may do",
        404: "check CARREL_EMBEDDING_BASE_URL and CARREL_EMBEDDING_MODEL",
    }.get(error.status_code, "it does not take this text or these settings")
    return EmbeddingRejected(f"The embedding endpoint refuses (HTTP {error.status_code}{code}): {hint}.", **fields)


def _retry_after(error: Exception) -> float | None:
    """Seconds that the server asks for, from a number or a date; None where it says nothing readable."""
    value = error.response.headers.get("retry-after", "") if isinstance(error, APIStatusError) else ""
    if NUMBER.fullmatch(value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except ValueError:
        return None


def _delay(patience: Patience, attempt: int, asked: float | None) -> float:
    """Seconds before the next attempt: somewhat more than asked, else backing off; spread, for callers are many."""
    if asked is not None:
        return asked * random.uniform(1.0, 1.1)  # noqa: S311  no secret
    backoff = min(patience.longest_delay, patience.first_delay * 2.0 ** (attempt - 1))
    return backoff * random.uniform(0.5, 1.0)  # noqa: S311  no secret

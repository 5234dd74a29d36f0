"""Embedding model behind an OpenAI-compatible endpoint: adapted batch sizes, limited retries and checked replies."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from openai import APIError, APIStatusError, omit

from app.inference.circuit_breaker import CircuitBreaker, EndpointFailed
from app.inference.embedding import (
    EmbeddingIdentity,
    EmbeddingRejected,
    Embeddings,
    EmbeddingUnavailable,
    ImageEmbedder,
    ImageFile,
    Vectors,
)
from app.inference.embedding.openai_errors import create_rejection
from app.inference.embedding.openai_inputs import EmbeddingInputs, ImageInputFormat, ImageInputs, TextInputs
from app.inference.embedding.openai_reply import UnusableReply, read_reply, read_used_tokens
from app.inference.embedding.rate_limit import RateLimiter, UnlimitedRateLimiter
from app.inference.embedding.token_estimate import estimate_tokens, split_batches
from app.inference.openai_client import build_headers, create_openai_client, is_refusal, to_endpoint_failure

FIRST_BATCH_SIZE = 64
IMAGE_BATCH_SIZE = 8
# Providers refuse requests with more than 120,000 to 300,000 tokens. Estimates of tokens are rather too high than too
# low.
MAX_BATCH_TOKENS = 100_000
# Status codes of a request that is too large. The same codes can mean a text that the server refuses, and only halving
# the batch distinguishes the two cases.
TOO_LARGE_STATUS_CODES = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of the retries of requests to an embedding endpoint.

    Attributes:
        max_attempts: Maximum number of attempts of a request.
        first_delay_seconds: Pause before the second attempt.
        max_delay_seconds: Maximum pause; if the endpoint requests a longer one, the request fails.
        hang_timeout_seconds: Seconds after which a cancelled request counts as a failure of the endpoint.
        is_interactive: Whether requests are sent before bulk work.
    """

    max_attempts: int
    first_delay_seconds: float
    max_delay_seconds: float
    hang_timeout_seconds: float
    is_interactive: bool = False


# Providers count limits by the minute, so a caller waits at most one minute.
BULK_RETRY_POLICY = RetryPolicy(
    max_attempts=5, first_delay_seconds=0.5, max_delay_seconds=60.0, hang_timeout_seconds=math.inf
)
# A user waits for a query. Its deadline is a few seconds, far less than the timeout of the endpoint.
QUERY_RETRY_POLICY = RetryPolicy(
    max_attempts=2, first_delay_seconds=0.1, max_delay_seconds=0.5, hang_timeout_seconds=0.5, is_interactive=True
)
INTERACTIVE_RETRY_POLICY = replace(BULK_RETRY_POLICY, is_interactive=True)


@dataclass(slots=True)
class BatchSize:
    """Maximum number of inputs of one kind in a request, which shrinks when the endpoint refuses a batch."""

    max_inputs: int


@dataclass(slots=True)
class EmbeddingTask:
    """State of one call: its texts or images, the vectors so far and their tokens."""

    inputs: EmbeddingInputs
    counts: Sequence[int]
    batch_size: BatchSize
    vectors: Vectors
    retry_policy: RetryPolicy
    tokens: int = 0


class OpenAIEmbedder:
    """Embedder that calls ``POST {base_url}/embeddings``.

    A refused batch is halved. If both halves succeed, their size becomes the limit; texts and images have separate
    limits. A limit never grows again: each attempt at a larger batch would cost a request, and small batches cost
    little.
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
        format_setting_name: Callable[[str], str],
        image_format: ImageInputFormat | None = None,
        rate_limiter: RateLimiter | None = None,
    ) -> None:
        """Create an embedder.

        Args:
            base_url: URL of the endpoint.
            api_key: API key; None if the endpoint needs none.
            model: Name of the model.
            dimensions: Number of dimensions of the vectors.
            send_dimensions: Whether requests contain the number of dimensions, so that a model with variable dimensions
                shortens its vectors.
            max_tokens: Maximum number of tokens of a text.
            query_prefix: Text that is added before every query.
            document_prefix: Text that is added before every text of a document.
            timeout_seconds: Timeout of a request.
            format_setting_name: Returns the name of the environment variable of a settings field, for error messages.
            image_format: Format of images in requests; None if the endpoint takes no images.
            rate_limiter: Rate limiter; without a rate limiter, only the endpoint limits the calls.
        """
        self._format_setting_name = format_setting_name
        self._headers = build_headers(api_key)
        self._client = create_openai_client(base_url, api_key, timeout_seconds=timeout_seconds)
        self._identity = EmbeddingIdentity(model, dimensions, "remote", query_prefix, document_prefix)
        self._dimensions = dimensions if send_dimensions else omit
        self._max_tokens = max_tokens
        self._text_batch_size = BatchSize(FIRST_BATCH_SIZE)
        self._image_format = image_format
        self._image_batch_size = BatchSize(1 if image_format == "messages" else IMAGE_BATCH_SIZE)
        self._rate_limiter: RateLimiter = rate_limiter or UnlimitedRateLimiter()
        self._breaker = CircuitBreaker("embedding", EmbeddingUnavailable)

    @property
    def circuit_breaker(self) -> CircuitBreaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of all vectors; the precision is ``remote``, because the endpoint chooses it."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """Configured maximum number of tokens of a text."""
        return self._max_tokens

    @property
    def special_tokens(self) -> int:
        """Number of special tokens of BERT-like models; other models add fewer, so the number is safe."""
        return 2

    @property
    def image_embedder(self) -> ImageEmbedder | None:
        """The embedder itself if an image format is configured, otherwise None."""
        return self if self._image_format else None

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Embed texts in batches with many retries, as ``Embedder.embed_documents`` does.

        The tokens are reported by the endpoint, or estimated.
        """
        return await self._embed_texts(
            texts, self._identity.document_prefix, INTERACTIVE_RETRY_POLICY if interactive else BULK_RETRY_POLICY
        )

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries with at most one quick retry, as ``Embedder.embed_queries`` does."""
        return (await self._embed_texts(texts, self._identity.query_prefix, QUERY_RETRY_POLICY)).vectors

    async def embed_images(self, images: Sequence[ImageFile], *, interactive: bool = False) -> Embeddings:
        """Embed images like ``embed_documents``, or with the retries of ``embed_queries``; needs an image format."""
        inputs = ImageInputs(images, self._image_format or "input")
        return await self._embed_all(
            inputs, self._image_batch_size, QUERY_RETRY_POLICY if interactive else BULK_RETRY_POLICY
        )

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the tokens upwards from the length in UTF-8."""
        return [estimate_tokens(text) for text in texts]

    async def check(self) -> None:
        """Embed one word, also while the circuit is open, to test whether the endpoint works again.

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected.
        """
        self._breaker.allow_trial()
        await self.embed_queries(["word"])

    def require_available(self) -> None:
        """Raise EmbeddingUnavailable while the circuit is open."""
        self._breaker.check()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed_texts(self, texts: Sequence[str], prefix: str, retry_policy: RetryPolicy) -> Embeddings:
        # Endpoints refuse an empty text, and none can encode a lone surrogate.
        inputs = [(prefix + text).encode("utf-8", "replace").decode() or " " for text in texts]
        return await self._embed_all(TextInputs(inputs), self._text_batch_size, retry_policy)

    async def _embed_all(self, inputs: EmbeddingInputs, batch_size: BatchSize, retry_policy: RetryPolicy) -> Embeddings:
        counts = inputs.estimate_token_counts()
        vectors = np.empty((len(counts), self._identity.dimensions), np.float32)
        task = EmbeddingTask(inputs, counts, batch_size, vectors, retry_policy)
        try:
            for start, end in split_batches(
                task.counts, max_tokens=min(MAX_BATCH_TOKENS, self._rate_limiter.max_tokens or MAX_BATCH_TOKENS)
            ):
                await self._embed_batch(task, start, end)
        except EmbeddingRejected as exc:
            exc.fields["tokens"] = task.tokens
            raise
        return Embeddings(task.vectors, task.tokens)

    async def _embed_batch(self, task: EmbeddingTask, start: int, end: int) -> None:
        max_inputs = task.batch_size.max_inputs
        if end - start > max_inputs:
            for part_start in range(start, end, max_inputs):
                await self._embed_batch(task, part_start, min(part_start + max_inputs, end))
            return
        try:
            await self._request_with_retries(task, start, end)
        except APIStatusError as exc:
            if exc.status_code not in TOO_LARGE_STATUS_CODES:
                raise create_rejection(exc, self._format_setting_name) from exc
            if end - start == 1:
                raise create_rejection(exc, self._format_setting_name, index=start) from exc
        else:
            return
        half = (end - start + 1) // 2
        await self._embed_batch(task, start, start + half)
        await self._embed_batch(task, start + half, end)
        # Both halves succeeded, so the batch was too large; no single input was at fault.
        task.batch_size.max_inputs = min(task.batch_size.max_inputs, half)

    async def _request_with_retries(self, task: EmbeddingTask, start: int, end: int) -> None:
        """Request one batch, with retries.

        Raises EmbeddingUnavailable, EmbeddingMismatch, and APIStatusError for a refusal.
        """
        retry_policy = task.retry_policy
        for attempt in range(1, retry_policy.max_attempts + 1):
            try:
                await self._send_request(task, start, end)
                return
            except EndpointFailed as exc:
                delay = _compute_delay(retry_policy, attempt, exc.retry_after)
                if attempt == retry_policy.max_attempts or delay > retry_policy.max_delay_seconds:
                    raise EmbeddingUnavailable(
                        f"The embedding endpoint failed: {exc}.", retry_after=max(2.0, exc.retry_after or 0.0)
                    ) from exc
            await asyncio.sleep(delay)

    async def _send_request(self, task: EmbeddingTask, start: int, end: int) -> None:
        """Send one request when the rate limit allows it.

        Raises EndpointFailed if a retry may help; otherwise the errors of ``_request_with_retries``.
        """
        self._breaker.check()
        expected = sum(task.counts[start:end])
        await self._wait_for_rate_limit(expected, task.retry_policy)
        try:
            with self._breaker.call(hang_timeout_seconds=task.retry_policy.hang_timeout_seconds):
                payload = await self._post(task.inputs.build_body(start, end))
                task.vectors[start:end] = self._parse_vectors(payload, end - start)
        except EndpointFailed as exc:
            if exc.retry_after:
                await self._rate_limiter.pause(exc.retry_after)
            raise
        used = read_used_tokens(payload, max_tokens=task.inputs.compute_max_tokens(start, end))
        if used is not None:
            self._rate_limiter.adjust(used - expected)
        task.tokens += expected if used is None else used

    async def _wait_for_rate_limit(self, tokens: int, retry_policy: RetryPolicy) -> None:
        """Wait for the rate limit, at most for the longest delay of the policy. Raises EmbeddingUnavailable."""
        while delay := await self._rate_limiter.acquire(tokens, interactive=retry_policy.is_interactive):
            if delay > retry_policy.max_delay_seconds:
                raise EmbeddingUnavailable(
                    "The rate limit of the embedding endpoint is reached. Try again later.", retry_after=delay
                )
            await asyncio.sleep(_add_jitter(delay))

    async def _post(self, body: dict[str, Any]) -> Any:
        """Return the decoded reply. Raises EndpointFailed, and APIStatusError for a refusal."""
        try:
            # The code reads the raw reply, because the openai package converts base64 into lists of Python floats and
            # checks nothing.
            reply = await self._client.embeddings.with_raw_response.create(
                model=self._identity.model,
                dimensions=self._dimensions,
                encoding_format="base64",
                extra_headers=self._headers,
                **body,
            )
            return reply.http_response.json()
        except APIError as exc:
            if is_refusal(exc):
                raise
            raise to_endpoint_failure(exc) from exc
        except (ValueError, RecursionError) as exc:
            raise EndpointFailed("the answer is not JSON") from exc

    def _parse_vectors(self, payload: Any, count: int) -> Vectors:
        try:
            return read_reply(
                payload, count, self._identity.dimensions, setting=self._format_setting_name("dimensions")
            )
        except UnusableReply as exc:
            raise EndpointFailed(str(exc)) from exc


def _compute_delay(retry_policy: RetryPolicy, attempt: int, requested: float | None) -> float:
    """Return the seconds before the next attempt: slightly more than requested, or else exponential with jitter."""
    if requested is not None:
        return _add_jitter(requested)
    backoff = min(retry_policy.max_delay_seconds, retry_policy.first_delay_seconds * 2.0 ** (attempt - 1))
    return backoff * random.uniform(0.5, 1.0)  # noqa: S311  no secret


def _add_jitter(seconds: float) -> float:
    return seconds * random.uniform(1.0, 1.1)  # noqa: S311  no secret

"""Any other embedding model behind an OpenAI-compatible endpoint: learned batches, bounded retries, checked replies."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from openai import APIError, APIStatusError, omit

from app.inference.breaker import Breaker, EndpointFailed
from app.inference.embedding import (
    EmbeddingIdentity,
    EmbeddingRejected,
    Embeddings,
    EmbeddingUnavailable,
    PictureEmbedder,
    PictureFile,
    Vectors,
)
from app.inference.embedding.estimating import batches, estimate
from app.inference.embedding.openai_errors import rejected
from app.inference.embedding.openai_inputs import Inputs, PictureForm, Pictures, Texts
from app.inference.embedding.openai_reply import UnusableReply, read_reply, used_tokens
from app.inference.embedding.pacing import NoPace, Pace
from app.inference.openai_client import failure, is_refusal, open_client, own_headers

FIRST_BATCH = 64
PICTURE_BATCH = 8
# Providers refuse requests over a total of 120,000 to 300,000 tokens; the estimate errs upwards.
BATCH_TOKENS = 100_000
# What a server says when a request is too large for it. The same numbers also mean a text that it does not take, and
# only halving tells the two apart.
TOO_LARGE = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a request is made, how many seconds may lie before the next one, and when one that its caller gave up
    counts as a failure of the endpoint; what is ``interactive`` goes before bulk work.
    """

    attempts: int
    first_delay: float
    longest_delay: float
    hangs_after: float
    interactive: bool = False


# Limits are counted by the minute: whoever waits longer than that is told to come back.
DOCUMENTS = Patience(attempts=5, first_delay=0.5, longest_delay=60.0, hangs_after=math.inf)
# Someone waits for a query, within a budget of a few seconds, and gives up long before the endpoint's time is over.
QUERIES = Patience(attempts=2, first_delay=0.1, longest_delay=0.5, hangs_after=0.5, interactive=True)
NOTES = replace(DOCUMENTS, interactive=True)


@dataclass(slots=True)
class BatchSize:
    """How many inputs of a kind go into a request."""

    most: int


@dataclass(slots=True)
class Work:
    """One call's texts or pictures, and what there is of their vectors and costs."""

    inputs: Inputs
    counts: Sequence[int]
    size: BatchSize
    vectors: Vectors
    patience: Patience
    tokens: int = 0


class OpenAIEmbedder:
    """An Embedder over ``POST {base_url}/embeddings``.

    A batch that is refused is halved; when both halves pass, their size is the limit from then on, for texts and for
    pictures apart. The limit is kept for the life of the process and never grown again: a guess upwards costs a request
    each time, a small batch little.
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
        name_of: Callable[[str], str],
        pictures: PictureForm | None = None,
        pace: Pace | None = None,
    ) -> None:
        """``send_dimensions`` asks a Matryoshka model for that many; ``max_tokens`` is the longest text it reads.

        ``name_of`` says what the setting of a field is called. ``pictures`` is how the endpoint takes them, if it does.
        Without ``pace`` calls are limited by nothing but the endpoint's own word.
        """
        self._name_of = name_of
        self._headers = own_headers(api_key)
        self._client = open_client(base_url, api_key, timeout_seconds=timeout_seconds)
        self._identity = EmbeddingIdentity(model, dimensions, "remote", query_prefix, document_prefix)
        self._dimensions = dimensions if send_dimensions else omit
        self._max_tokens = max_tokens
        self._texts = BatchSize(FIRST_BATCH)
        self._picture_form = pictures
        self._pictures = BatchSize(1 if pictures == "messages" else PICTURE_BATCH)
        self._pace: Pace = pace or NoPace()
        self._breaker = Breaker("embedding", EmbeddingUnavailable)

    @property
    def circuit_breaker(self) -> Breaker:
        """Return the circuit breaker of the endpoint."""
        return self._breaker

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

    @property
    def pictures(self) -> PictureEmbedder | None:
        """Itself, where the endpoint is said to take pictures."""
        return self if self._picture_form else None

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """In batches, with patience, also ``interactive`` ones; tokens as the endpoint counts them, else estimated.

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected; the last has ``fields["index"]``, a position
        in ``texts``, where one text was refused by itself.
        """
        return await self._embed_texts(texts, self._identity.document_prefix, NOTES if interactive else DOCUMENTS)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Interactive work: one quick retry at most. Shape (len(texts), dimensions), errors as ``embed_documents``."""
        return (await self._embed_texts(texts, self._identity.query_prefix, QUERIES)).vectors

    async def embed_pictures(self, pictures: Sequence[PictureFile], *, interactive: bool = False) -> Embeddings:
        """As ``embed_documents``, or with the patience of ``embed_queries``; only where ``pictures`` is not None."""
        work = Pictures(pictures, self._picture_form or "input")
        return await self._embed_all(work, self._pictures, QUERIES if interactive else DOCUMENTS)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """An upper estimate from the length in UTF-8."""
        return [estimate(text) for text in texts]

    async def check(self) -> None:
        """Embed one word, also while the circuit is open: this tells whether the endpoint is back.

        Raises EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected.
        """
        self._breaker.try_now()
        await self.embed_queries(["word"])

    def require_answering(self) -> None:
        """Raise EmbeddingUnavailable while the circuit is open."""
        self._breaker.check()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _embed_texts(self, texts: Sequence[str], prefix: str, patience: Patience) -> Embeddings:
        # Endpoints refuse an empty text, and none can encode a lone surrogate.
        inputs = [(prefix + text).encode("utf-8", "replace").decode() or " " for text in texts]
        return await self._embed_all(Texts(inputs), self._texts, patience)

    async def _embed_all(self, inputs: Inputs, size: BatchSize, patience: Patience) -> Embeddings:
        counts = inputs.estimated()
        vectors = np.empty((len(counts), self._identity.dimensions), np.float32)
        work = Work(inputs, counts, size, vectors, patience)
        try:
            for start, end in batches(work.counts, most=min(BATCH_TOKENS, self._pace.most_tokens or BATCH_TOKENS)):
                await self._embed_batch(work, start, end)
        except EmbeddingRejected as exc:
            exc.fields["tokens"] = work.tokens
            raise
        return Embeddings(work.vectors, work.tokens)

    async def _embed_batch(self, work: Work, start: int, end: int) -> None:
        size = work.size.most
        if end - start > size:
            for at in range(start, end, size):
                await self._embed_batch(work, at, min(at + size, end))
            return
        try:
            await self._request(work, start, end)
        except APIStatusError as exc:
            if exc.status_code not in TOO_LARGE:
                raise rejected(exc, self._name_of) from exc
            if end - start == 1:
                raise rejected(exc, self._name_of, index=start) from exc
        else:
            return
        half = (end - start + 1) // 2
        await self._embed_batch(work, start, start + half)
        await self._embed_batch(work, start + half, end)
        # Both passed where the whole did not: so it was the size, and not one bad input.
        work.size.most = min(work.size.most, half)

    async def _request(self, work: Work, start: int, end: int) -> None:
        """One batch, with retries. Raises EmbeddingUnavailable, EmbeddingMismatch, and APIStatusError for a refusal."""
        patience = work.patience
        for attempt in range(1, patience.attempts + 1):
            try:
                await self._attempt(work, start, end)
                return
            except EndpointFailed as exc:
                delay = _delay(patience, attempt, exc.retry_after)
                if attempt == patience.attempts or delay > patience.longest_delay:
                    raise EmbeddingUnavailable(
                        f"The embedding endpoint failed: {exc}.", retry_after=max(2.0, exc.retry_after or 0.0)
                    ) from exc
            await asyncio.sleep(delay)

    async def _attempt(self, work: Work, start: int, end: int) -> None:
        """One request, when it is its turn. Raises EndpointFailed where another may do, else as ``_request``."""
        self._breaker.check()
        expected = sum(work.counts[start:end])
        await self._turn(expected, work.patience)
        try:
            with self._breaker.call(hangs_after=work.patience.hangs_after):
                payload = await self._post(work.inputs.body(start, end))
                work.vectors[start:end] = self._vectors(payload, end - start)
        except EndpointFailed as exc:
            if exc.retry_after:
                await self._pace.pause(exc.retry_after)
            raise
        used = used_tokens(payload, most=work.inputs.most_tokens(start, end))
        if used is not None:
            self._pace.correct(used - expected)
        work.tokens += expected if used is None else used

    async def _turn(self, tokens: int, patience: Patience) -> None:
        """Wait for it, but not for longer than there is patience. Raises EmbeddingUnavailable."""
        while wait := await self._pace.take(tokens, interactive=patience.interactive):
            if wait > patience.longest_delay:
                raise EmbeddingUnavailable(
                    "The embedding endpoint takes no more for a while: its limit is reached.", retry_after=wait
                )
            await asyncio.sleep(_spread(wait))

    async def _post(self, body: dict[str, Any]) -> Any:
        """The decoded reply. Raises EndpointFailed, and APIStatusError for a refusal."""
        try:
            # The raw reply: the package turns base64 into lists of Python floats, and checks nothing.
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
            raise failure(exc) from exc
        except (ValueError, RecursionError) as exc:
            raise EndpointFailed("it is no JSON") from exc

    def _vectors(self, payload: Any, count: int) -> Vectors:
        try:
            return read_reply(payload, count, self._identity.dimensions, setting=self._name_of("dimensions"))
        except UnusableReply as exc:
            raise EndpointFailed(str(exc)) from exc


def _delay(patience: Patience, attempt: int, asked: float | None) -> float:
    """Seconds before the next attempt: somewhat more than asked, else backing off; spread, for callers are many."""
    if asked is not None:
        return _spread(asked)
    backoff = min(patience.longest_delay, patience.first_delay * 2.0 ** (attempt - 1))
    return backoff * random.uniform(0.5, 1.0)  # noqa: S311  no secret


def _spread(seconds: float) -> float:
    return seconds * random.uniform(1.0, 1.1)  # noqa: S311  no secret

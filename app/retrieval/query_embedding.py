"""Vectors of queries: provided by the caller, cached, or computed by the embedding model in one batch."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from app.errors import AppError, InvalidInputError
from app.inference.embedding import (
    Embedder,
    EmbeddingIdentity,
    EmbeddingMismatch,
    EmbeddingRejected,
    EmbeddingUnavailable,
)
from app.inference.embedding.token_estimate import estimate_tokens
from app.logging import get_logger
from app.quotas.service import QuotaService
from app.quotas.types import DailyTokenLimitReached
from app.retrieval import time_budget
from app.retrieval.search_run import SearchRun, gather, get_failure_reason
from app.retrieval.types import Query, SearchUnavailable
from app.text_normalization import normalize_text
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

Vector = npt.NDArray[np.float32]
ChargeTokens = Callable[[Sequence[str]], Awaitable[None]]
EmbedQueries = Callable[[Embedder, Sequence[Query]], Awaitable[Sequence[Vector]]]
MAX_CACHED_VECTORS = 1000
# Longer texts are rarely searched twice.
MAX_CACHED_CHARACTERS = 512
NO_IMAGES = "image queries were skipped"
TEXTLESS_QUERIES_SKIPPED = ServiceWarning(
    WarningCode.TEXTLESS_QUERIES_SKIPPED, "Queries without text were skipped: the strategy searches text only."
)
FAILURES = (EmbeddingUnavailable, EmbeddingMismatch, EmbeddingRejected, TimeoutError)


@dataclass(frozen=True, slots=True)
class QueryVectorCache:
    """Cache of recent query vectors, shared by all searches of a process.

    Vectors are cached for each tenant. If tenants shared cached vectors, a fast search would reveal that another tenant
    has searched for the same text.
    """

    _vectors: LRUCache[tuple[UUID, EmbeddingIdentity, str], Vector] = field(
        default_factory=lambda: LRUCache(MAX_CACHED_VECTORS)
    )

    def get_many(self, identity: EmbeddingIdentity, tenant_id: UUID, texts: Sequence[str]) -> dict[str, Vector]:
        """Return the cached vectors of the texts, and mark them as recently used."""
        cached = {text: self._vectors.get((tenant_id, identity, text)) for text in texts}
        return {text: vector for text, vector in cached.items() if vector is not None}

    async def embed(
        self, embedder: Embedder, tenant_id: UUID, texts: Sequence[str], *, charge_tokens: ChargeTokens | None = None
    ) -> list[Vector]:
        """Return a vector for each text. Only texts without a cached vector are charged and sent to the model.

        Args:
            embedder: Embedder of the model.
            tenant_id: Tenant of the search.
            texts: Texts to embed.
            charge_tokens: Function that checks and counts the tokens before the model is called. Its errors, and those
                of the embedder, are raised unchanged.

        Returns:
            The vectors in the order of the texts.
        """
        vectors = self.get_many(embedder.identity, tenant_id, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            if charge_tokens is not None:
                await charge_tokens(missing)
            embedded = dict(zip(missing, await embedder.embed_queries(missing), strict=True))
            vectors |= embedded
            # Copies, because a view of one row would keep the whole batch in memory.
            cacheable = {text: vector.copy() for text, vector in embedded.items() if len(text) <= MAX_CACHED_CHARACTERS}
            self._vectors.update(((tenant_id, embedder.identity, text), vector) for text, vector in cacheable.items())
        return [vectors[text] for text in texts]


@dataclass(frozen=True, slots=True)
class QueryEmbedder:
    """Embedder of the queries of one search.

    Attributes:
        cache: Cache of query vectors.
        quotas: Quotas of the tenant, for embedding tokens.
        search_run: Deadline and warnings of the search.
    """

    cache: QueryVectorCache
    quotas: QuotaService
    search_run: SearchRun
    # Models that did not answer in this search; they are not called again.
    _unavailable_models: set[EmbeddingIdentity] = field(default_factory=set)
    # Queries that a model rejected: a text that is too long, or an image that it cannot read.
    _rejected_queries: dict[EmbeddingIdentity, set[Query]] = field(default_factory=dict)

    async def embed(
        self,
        embedder: Embedder,
        queries: Sequence[Query],
        *,
        required: bool,
        unavailable_message: str = "",
        fallback_message: str = "",
        partial_message: str = "",
    ) -> list[Vector | None]:
        """Return the vectors of the queries, made by one embedding model.

        The model gets a share of the remaining time. The caller gets a warning if the model does not answer or
        rejects a query, or if the daily tokens are used up.

        Args:
            embedder: Embedder of the model.
            queries: Queries with a text, an image or a provided vector.
            required: Whether a failure raises an error. With a ``partial_message``, a failure raises an error only if
                no vector is cached.
            unavailable_message: First sentence of the warning; it names the model that does not answer.
            fallback_message: Second sentence of the warning; it says how the search continues.
            partial_message: Second sentence of the warning if the vectors of some queries are cached.

        Returns:
            The vectors in the order of the queries; None for a query without a vector.

        Raises:
            EmbeddingUnavailable: The model does not answer, and the vectors are required.
            DailyTokenLimitReached: The daily tokens are used up, and the vectors are required.
        """
        text_queries = [query for query in queries if query.vector is None and query.text is not None]
        image_queries = [query for query in queries if query.image is not None]
        vectors = self._get_cached_vectors(embedder, text_queries)
        fallback_messages = (
            (partial_message, NO_IMAGES) if vectors and partial_message else (fallback_message, fallback_message)
        )
        required = required and fallback_messages[0] == fallback_message
        for group, embed, fallback_message in zip(
            (text_queries, image_queries), (self._embed_texts, self._embed_images), fallback_messages, strict=True
        ):
            if missing := [query for query in group if query not in vectors]:
                embed_missing = partial(self._embed_accepted, embed, embedder, missing)
                vectors |= await self._embed_in_time(
                    embed_missing,
                    required=required,
                    unavailable_message=unavailable_message,
                    fallback_message=fallback_message,
                )
        return [vectors.get(query, query.vector) for query in queries]

    def _get_cached_vectors(self, embedder: Embedder, queries: Sequence[Query]) -> dict[Query, Vector]:
        texts = {query: _read_text(query) for query in queries if query.text is not None}
        cached = self.cache.get_many(embedder.identity, self.quotas.db.tenant_id, list(texts.values()))
        return {query: cached[text] for query, text in texts.items() if text in cached}

    def build_unsearchable_error(self, queries: Sequence[Query]) -> AppError:
        """Build the error for a search whose queries have neither terms nor a vector.

        Args:
            queries: All queries of the search.

        Returns:
            InvalidInputError if the model rejected every query, else SearchUnavailable.
        """
        if not set().union(*self._rejected_queries.values()).issuperset(queries):
            return SearchUnavailable()
        loc = queries[0].loc if len(queries) == 1 else ("body", "queries")
        return InvalidInputError("The embedding model rejected the query. Change it or make it shorter.", loc=loc)

    async def _embed_in_time(
        self,
        embed: Callable[[], Awaitable[dict[Query, Vector]]],
        *,
        required: bool,
        unavailable_message: str,
        fallback_message: str,
    ) -> dict[Query, Vector]:
        try:
            async with asyncio.timeout(self.search_run.remaining_seconds * time_budget.EMBED):
                return await embed()
        except DailyTokenLimitReached as exc:
            if required:
                raise
            message = f"{exc.message} {fallback_message[:1].upper()}{fallback_message[1:]}."
            self.search_run.warn(ServiceWarning(WarningCode.EMBEDDING_QUOTA_EXCEEDED, message))
            return {}
        except FAILURES as exc:
            if required:
                raise EmbeddingUnavailable from exc
            logger.warning("search.embedding_failed", error=exc)
            message = f"{unavailable_message}: {fallback_message}."
            self.search_run.warn(ServiceWarning(WarningCode.EMBEDDING_UNAVAILABLE, message))
            self.search_run.degrade("dense", get_failure_reason(exc))
            return {}

    async def _embed_accepted(
        self, embed: EmbedQueries, embedder: Embedder, queries: Sequence[Query]
    ) -> dict[Query, Vector]:
        """Embed the queries that the model accepts: a rejected query does not affect the others."""
        rejected = self._rejected_queries.setdefault(embedder.identity, set())
        accepted = [query for query in queries if query not in rejected]
        try:
            vectors = (
                dict(zip(accepted, await self._call_model(embed, embedder, accepted), strict=False)) if accepted else {}
            )
        except EmbeddingRejected as exc:
            if "index" not in exc.fields:
                raise
            if len(accepted) > 1:  # more queries may be invalid: single calls find all of them in one round
                results = await gather([self._embed_accepted(embed, embedder, [query]) for query in accepted])
                vectors = {query: vector for result in results for query, vector in result.items()}
            else:
                logger.warning("search.query_rejected", error=exc)
                vectors = {}
                rejected.update(accepted)
        for query in filter(rejected.__contains__, queries):
            location = ".".join(map(str, query.loc[1:]))
            message = f"The embedding model rejected {location}: the dense retriever searched without it."
            self.search_run.warn(ServiceWarning(WarningCode.QUERY_NOT_EMBEDDED, message))
            self.search_run.degrade("dense", EmbeddingRejected.code)
        return vectors

    async def _call_model(self, embed: EmbedQueries, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        if embedder.identity in self._unavailable_models:
            raise EmbeddingUnavailable
        try:
            return await embed(embedder, queries)
        except (EmbeddingUnavailable, asyncio.CancelledError):  # a timeout cancels this task
            self._unavailable_models.add(embedder.identity)
            raise

    async def _embed_texts(self, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        texts = [_read_text(query) for query in queries if query.text is not None]
        return await self.cache.embed(embedder, self.quotas.db.tenant_id, texts, charge_tokens=self._charge_tokens)

    async def _charge_tokens(self, texts: Sequence[str]) -> None:
        await self.quotas.token_budget.check()
        self.quotas.count(query_tokens=sum(map(estimate_tokens, texts)))

    async def _embed_images(self, embedder: Embedder, queries: Sequence[Query]) -> Sequence[Vector]:
        files = [query.image for query in queries if query.image is not None]
        if embedder.image_embedder is None:  # queries without an image still search the knowledge bases
            return []
        await self.quotas.token_budget.check()
        embedded = await embedder.image_embedder.embed_images(files, interactive=True)
        self.quotas.count(query_tokens=embedded.tokens)
        return list(embedded.vectors)


def drop_unusable_queries(
    queries: Sequence[Query], search_run: SearchRun, *, uses_dense: bool, accepts_images: bool
) -> list[Query]:
    """Drop the queries that no retriever can search, and warn of them.

    Args:
        queries: Queries of the search.
        search_run: Collector of the warnings.
        uses_dense: Whether the strategy uses the dense retriever.
        accepts_images: Whether an embedding model accepts images.

    Returns:
        The remaining queries. None remain if all are images that cannot be searched.

    Raises:
        InvalidInputError: All queries were dropped, and one of them is no image.
    """
    supported = [query for query in queries if query.image is None or (accepts_images and uses_dense)]
    if len(supported) < len(queries):
        reason = "the strategy searches text only" if not uses_dense else "the embedding model accepts text only"
        search_run.warn(ServiceWarning(WarningCode.IMAGE_QUERIES_SKIPPED, f"Image queries were skipped: {reason}."))
    usable_queries = supported if uses_dense else [query for query in supported if query.text is not None]
    if len(usable_queries) < len(supported):
        search_run.warn(TEXTLESS_QUERIES_SKIPPED)
    if supported and not usable_queries:
        raise build_no_usable_queries_error()
    return usable_queries


def _read_text(query: Query) -> str:
    """Return the text of a query in the form in which texts of documents are stored and embedded."""
    text = query.text or ""
    return normalize_text(text) or text


def build_no_usable_queries_error() -> InvalidInputError:
    """Build the error for a search in which no query can be searched."""
    return InvalidInputError("None of the queries can be searched. Add a query with text.", loc=("body", "queries"))


def check_dimensions(queries: Sequence[Query], sizes: Sequence[int]) -> None:
    """Check that each provided vector has the dimensions of at least one search index.

    Args:
        queries: Queries of the search.
        sizes: Dimensions of the search indexes.

    Raises:
        InvalidInputError: No search index has the dimensions of a vector.
    """
    for query in queries:
        if query.vector is not None and len(query.vector) not in sizes:
            expected = " or ".join(map(str, sorted(set(sizes))))
            message = f"The vector has {len(query.vector)} dimensions; use a vector with {expected}."
            raise InvalidInputError(message, loc=(*query.loc, "vector"))


def warn_dimensions(queries: Sequence[Query], search_run: SearchRun, *, name: str, size: int) -> None:
    """Warn of provided vectors that do not have the dimensions of a search index.

    Args:
        queries: Queries of the search.
        search_run: Collector of the warnings.
        name: Name of the knowledge base, as messages show it.
        size: Dimensions of its search index.
    """
    for query in queries:
        if query.vector is not None and len(query.vector) != size:
            dimensions = len(query.vector)
            message = f"Query vectors of {dimensions} dimensions were skipped in {name}: its index has {size}."
            search_run.warn(ServiceWarning(WarningCode.QUERY_DIMENSIONS_MISMATCH, message))

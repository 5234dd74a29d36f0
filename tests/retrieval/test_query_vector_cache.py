"""Cache of query vectors: its entries, its size, and its tenants, with a model that counts its requests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.inference.embedding import Embedder, EmbeddingIdentity
from app.retrieval.query_embedding import MAX_CACHED_CHARACTERS, MAX_CACHED_VECTORS, QueryVectorCache

ONE, OTHER = UUID(int=1), UUID(int=2)
IDENTITY = EmbeddingIdentity("counting", 2, "fp32", "", "")


@dataclass
class CountingEmbedder:
    """Embedder with the methods that these tests need."""

    identity: EmbeddingIdentity = IDENTITY
    asked: list[str] = field(default_factory=list)

    async def embed_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return np.array([[len(text), 1] for text in texts], np.float32)


def embed(known: QueryVectorCache, embedder: CountingEmbedder, tenant: UUID, *texts: str) -> list[Any]:
    vectors = asyncio.run(known.embed(cast(Embedder, embedder), tenant, texts))
    return [vector.tolist() for vector in vectors]


def test_query_vectors_are_requested_once_per_text() -> None:
    known, embedder = QueryVectorCache(), CountingEmbedder()
    assert embed(known, embedder, ONE, "a", "bb", "a") == [[1, 1], [2, 1], [1, 1]]
    assert embed(known, embedder, ONE, "ccc", "bb") == [[3, 1], [2, 1]]
    assert embedder.asked == ["a", "bb", "ccc"]


def test_query_vectors_are_separate_by_tenant_and_model() -> None:
    known, embedder = QueryVectorCache(), CountingEmbedder()
    embed(known, embedder, ONE, "a")
    embed(known, embedder, OTHER, "a")
    embedder.identity = replace(IDENTITY, query_prefix="query: ")
    embed(known, embedder, ONE, "a")
    assert embedder.asked == ["a"] * 3


def test_query_vectors_least_recently_used_is_evicted() -> None:
    known, embedder = QueryVectorCache(), CountingEmbedder()
    texts = [str(number) for number in range(MAX_CACHED_VECTORS)]
    embed(known, embedder, ONE, *texts)
    embed(known, embedder, ONE, texts[0], "new")
    embedder.asked.clear()
    embed(known, embedder, ONE, texts[0], texts[1], "new")
    assert embedder.asked == [texts[1]]


def test_query_vectors_of_long_texts_are_not_cached() -> None:
    known, embedder = QueryVectorCache(), CountingEmbedder()
    for size in (MAX_CACHED_CHARACTERS, MAX_CACHED_CHARACTERS + 1):
        embedder.asked.clear()
        for _ in range(2):
            embed(known, embedder, ONE, "x" * size)
        assert len(embedder.asked) == size - MAX_CACHED_CHARACTERS + 1

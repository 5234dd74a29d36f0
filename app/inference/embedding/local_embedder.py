"""Embedder of local models on the CPU, with one thread for queries and other threads for documents."""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
import numpy.typing as npt

from app.inference.embedding import EmbeddingIdentity, EmbeddingMismatch, Embeddings, EmbeddingUnavailable, Vectors
from app.inference.embedding.text_tokenizer import TextTokenizer

# Characters of a text that are tokenized, for each token that the model reads. Ordinary text has five to eight.
MAX_CHARACTERS_PER_TOKEN = 64
BULK_NICENESS = 10


class TextModel(Protocol):
    """Protocol of a model that computes the vector of one text."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a vector."""

    def run(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the vector of a text, of unit length.

        Several threads may call this method at the same time. The call blocks.

        Args:
            ids: Token ids of the text with special tokens, not longer than the model reads.
        """


class LocalEmbedder:
    """Embedder that runs a local model. The model reads only the first ``max_tokens`` tokens of a text.

    Each text is a separate run of the model on one thread, without padding. Batches are no faster on a CPU, and a
    quantised vector would depend on the other texts of its batch. A call submits as many texts at a time as there are
    threads. Concurrent calls thus share the threads evenly, and a cancelled call runs no further texts.
    """

    def __init__(
        self,
        model: TextModel,
        tokenizer: TextTokenizer,
        identity: EmbeddingIdentity,
        *,
        max_tokens: int,
        bulk_threads: int,
    ) -> None:
        """Create the embedder and run the model once.

        Args:
            model: The model.
            tokenizer: Tokenizer of the model.
            identity: Identity of the vectors.
            max_tokens: Maximum number of tokens of a text, special tokens included.
            bulk_threads: Number of threads for documents.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._identity = identity
        self._max_tokens = max_tokens
        # A chunk of the maximum size would otherwise lose its end to the prefix. A long prefix leaves at least half.
        prefix_tokens = sum(tokenizer.count_tokens([identity.document_prefix])) if identity.document_prefix else 0
        self._special_tokens = min(tokenizer.special_tokens + prefix_tokens, max_tokens // 2)
        self._bulk_threads = bulk_threads
        self._query_pool = ThreadPoolExecutor(1, "embed-query")
        self._bulk_pool = ThreadPoolExecutor(bulk_threads, "embed-bulk", initializer=_yield_to_queries)
        self._warm_up()

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of all vectors of this embedder."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text, special tokens included."""
        return self._max_tokens

    @property
    def special_tokens(self) -> int:
        """Number of special tokens that the tokenizer adds to a text, and of the tokens of its prefix."""
        return self._special_tokens

    @property
    def image_embedder(self) -> None:
        """None, because the model reads only text."""

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Embed texts on the threads for documents, or on the thread for queries if ``interactive`` is true.

        The result counts the tokens that the model has read. Raises EmbeddingUnavailable after ``close``.
        """
        pool, concurrency = (self._query_pool, 1) if interactive else (self._bulk_pool, self._bulk_threads)
        return await self._embed_all(pool, concurrency, self._identity.document_prefix, texts)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries on a separate thread. Raises EmbeddingUnavailable after ``close``."""
        return (await self._embed_all(self._query_pool, 1, self._identity.query_prefix, texts)).vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, which has no prefix, without special tokens. The call blocks."""
        return self._tokenizer.count_tokens(texts)

    async def check(self) -> None:
        """Check the model by embedding one word. Raises EmbeddingUnavailable after ``close``, EmbeddingMismatch."""
        vectors = await self.embed_queries(["word"])
        if vectors.shape != (1, self._identity.dimensions) or not np.isfinite(vectors).all():
            raise EmbeddingMismatch

    async def close(self) -> None:
        """Close the model: finish the current texts and end the threads."""
        for pool in (self._query_pool, self._bulk_pool):
            await asyncio.to_thread(pool.shutdown)

    def embed_now(self, texts: Sequence[str]) -> Vectors:
        """Embed texts on the calling thread, without a prefix. The call blocks, so only the start uses it.

        Args:
            texts: The texts.
        """
        return np.stack([self._embed(text)[0] for text in texts])

    async def _embed_all(
        self, pool: ThreadPoolExecutor, concurrency: int, prefix: str, texts: Sequence[str]
    ) -> Embeddings:
        vectors = np.empty((len(texts), self._identity.dimensions), np.float32)
        counts = [0] * len(texts)
        positions = iter(range(len(texts)))

        async def embed_next() -> None:
            for position in positions:
                vectors[position], counts[position] = await self._submit(pool, prefix + texts[position])

        tasks = [asyncio.create_task(embed_next()) for _ in range(min(concurrency, len(texts)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return Embeddings(vectors, sum(counts))

    def _submit(self, pool: ThreadPoolExecutor, text: str) -> "asyncio.Future[tuple[npt.NDArray[np.float32], int]]":
        try:
            return asyncio.get_running_loop().run_in_executor(pool, self._embed, text)
        except RuntimeError as exc:
            raise EmbeddingUnavailable("The embedding model has been closed.") from exc

    def _embed(self, text: str) -> tuple[npt.NDArray[np.float32], int]:
        """Return the vector of a text, and the number of tokens that the model has read."""
        ids = self._tokenizer.encode(text[: MAX_CHARACTERS_PER_TOKEN * self._max_tokens], self._max_tokens)
        return self._model.run(ids), len(ids)

    def _warm_up(self) -> None:
        self._query_pool.submit(self._embed, "warm").result()
        # The first batch starts the threads of the tokenizer, which inherit the priority of the calling thread. They
        # get a low priority here, so that counting the tokens of a large document does not delay queries.
        self._bulk_pool.submit(self.count_tokens, ["warm", "up"]).result()


def _yield_to_queries() -> None:
    """Set a low priority for the calling thread. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A process with a low priority is not allowed to raise it.
        os.setpriority(os.PRIO_PROCESS, thread, max(BULK_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))

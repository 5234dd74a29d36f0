"""Embedder of local models on the CPU, with one thread for queries and other threads for documents."""

import asyncio
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from app.inference.embedding import EmbeddingIdentity, EmbeddingMismatch, Embeddings, EmbeddingUnavailable, Vectors
from app.inference.embedding.weights import WeightsDamaged

# Characters of a text that are tokenized, for each token that the model reads. Ordinary text has five to eight.
MAX_CHARACTERS_PER_TOKEN = 64
BULK_NICENESS = 10
# White space, and characters that the tokenizer takes as separate words. "]" is excluded, because it ends special
# tokens such as "[SEP]".
_CUT_BEFORE = re.compile(r"[\s!-/:-@\[\\^_`{-~\u3400-\u4dbf\u4e00-\u9fff]")
# The tokenizer uses about a hundred bytes for each token of a call, until the call returns.
MAX_BATCH_CHARACTERS = 128 * 1024
MAX_WORD_CHARACTERS = 4096


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
        tokenizer: Tokenizer,
        identity: EmbeddingIdentity,
        *,
        max_tokens: int,
        bulk_threads: int,
    ) -> None:
        """Create the embedder and run the model once.

        Args:
            model: The model.
            tokenizer: Tokenizer of the model, without truncation and padding.
            identity: Identity of the vectors.
            max_tokens: Maximum number of tokens of a text, special tokens included.
            bulk_threads: Number of threads for documents.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._identity = identity
        self._max_tokens = max_tokens
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
        """Number of special tokens that the tokenizer adds to a text."""
        return int(self._tokenizer.num_special_tokens_to_add(False))

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
        """Count the tokens of each text exactly, without special tokens. The call blocks.

        Texts are counted in batches, and long texts in parts, so the memory does not grow with the texts.

        Args:
            texts: Texts without a prefix.
        """
        counts = [0] * len(texts)
        for batch in _split_batches(texts):
            parts = [_replace_surrogates(part) for _, part in batch]
            encodings = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False)
            for (position, _), encoding in zip(batch, encodings, strict=True):
                counts[position] += len(encoding.ids)
        return counts

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
        text = _replace_surrogates(text[: MAX_CHARACTERS_PER_TOKEN * self._max_tokens])
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        encoding.truncate(self._max_tokens - self.special_tokens)
        ids = self._tokenizer.post_process(encoding).ids
        return self._model.run(ids), len(ids)

    def _warm_up(self) -> None:
        self._query_pool.submit(self._embed, "warm").result()
        # The first batch starts the threads of the tokenizer, which inherit the priority of the calling thread. They
        # get a low priority here, so that counting the tokens of a large document does not delay queries.
        self._bulk_pool.submit(self.count_tokens, ["warm", "up"]).result()


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer, and turn off its truncation and padding. Raises WeightsDamaged."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises no narrower class
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc
    # Files of tokenizers often request truncation and padding to 128 tokens.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _split_batches(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield batches of about ``MAX_BATCH_CHARACTERS``: parts of texts, each with the position of its text."""
    batch: list[tuple[int, str]] = []
    remaining_characters = MAX_BATCH_CHARACTERS
    for position, text in enumerate(texts):
        for part in _split_text(text):
            # Each text has a fixed cost in addition to its characters.
            remaining_characters -= len(part) + 16
            if remaining_characters < 0 and batch:
                yield batch
                batch, remaining_characters = [], MAX_BATCH_CHARACTERS - len(part) - 16
            batch.append((position, part))
    if batch:
        yield batch


def _split_text(text: str) -> Iterator[str]:
    """Yield a text in parts that end at word boundaries, so that the parts have as many tokens as the text.

    A word longer than ``MAX_WORD_CHARACTERS`` is one unknown token, and may count once in each part.
    """
    start = 0
    while len(text) - start > MAX_BATCH_CHARACTERS:
        max_end = start + MAX_BATCH_CHARACTERS
        end = next(
            (
                position
                for position in range(max_end, max_end - MAX_WORD_CHARACTERS, -1)
                if _CUT_BEFORE.match(text, position)
            ),
            max_end,
        )
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can contain but UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def _yield_to_queries() -> None:
    """Set a low priority for the calling thread. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A process with a low priority is not allowed to raise it.
        os.setpriority(os.PRIO_PROCESS, thread, max(BULK_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))

"""Embedded model: all-MiniLM-L6-v2 on the CPU, with one thread for queries and other threads for documents."""

import asyncio
import mmap
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

from app.inference.embedding import EmbeddingIdentity, EmbeddingMismatch, Embeddings, EmbeddingUnavailable, Vectors
from app.inference.embedding.minilm_tensors import (
    HIDDEN,
    WORD_EMBEDDINGS,
    Precision,
    Tensors,
    map_file,
    prepare_tensors,
    read_checkpoint,
)
from app.inference.embedding.weights import MODEL, WeightsDamaged

MAX_TOKENS = 256
SPECIAL_TOKENS = 2
MAX_CHARACTERS = 16_384
"""Maximum number of characters of a text that are tokenized. Ordinary text of 256 tokens has less than 2,000."""

BULK_NICENESS = 10
# White space, and characters that the tokenizer takes as separate words. "]" is excluded, because it ends special
# tokens such as "[SEP]".
_CUT_BEFORE = re.compile(r"[\s!-/:-@\[\\^_`{-~\u3400-\u4dbf\u4e00-\u9fff]")
# The tokenizer uses about a hundred bytes for each token of a call, until the call returns.
MAX_BATCH_CHARACTERS = 128 * 1024
MAX_WORD_CHARACTERS = 4096


class MiniLMEmbedder:
    """Embedder with 384 dimensions. The model is best for English, and reads only the first 256 tokens of a text.

    Each text is a separate run of the model on one thread, without padding, because batches are no faster on a CPU. A
    call submits as many texts at a time as there are threads. Concurrent calls thus share the threads evenly, and a
    cancelled call runs no further texts.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: Tokenizer,
        word_embeddings: npt.NDArray[np.float32],
        identity: EmbeddingIdentity,
        bulk_threads: int,
    ) -> None:
        """Create an embedder from the parts that ``load`` creates.

        Args:
            session: Session with the model.
            tokenizer: Tokenizer of the model.
            word_embeddings: Word embeddings, of the shape (vocabulary, 384).
            identity: Identity of the vectors.
            bulk_threads: Number of threads for documents.
        """
        self._session = session
        self._tokenizer = tokenizer
        self._word_embeddings = word_embeddings
        self._identity = identity
        self._bulk_threads = bulk_threads
        self._query_pool = ThreadPoolExecutor(1, "embed-query")
        self._bulk_pool = ThreadPoolExecutor(bulk_threads, "embed-bulk", initializer=_yield_to_queries)

    @classmethod
    def load(
        cls,
        weights_dir: Path,
        *,
        precision: Precision,
        bulk_threads: int,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> Self:
        """Map the weights into memory, create the session and run it once.

        The call blocks for some 0.2 seconds and holds the interpreter lock, so call it before the service starts.

        Args:
            weights_dir: Directory of the weights.
            precision: Precision of the model.
            bulk_threads: Number of threads for documents.
            query_prefix: Text that is added before every query.
            document_prefix: Text that is added before every text of a document.

        Raises:
            WeightsDamaged: The weights cannot be read.
        """
        mapping = map_file(weights_dir / "model.safetensors")
        tokenizer = _load_tokenizer(weights_dir / "tokenizer.json")
        checkpoint = read_checkpoint(mapping)
        session = _create_session(prepare_tensors(checkpoint, precision), precision)
        # onnxruntime has copied the matrices, so release the mapped pages. The word embeddings, which are still read,
        # come from the page cache again.
        if sys.platform == "linux":
            mapping.madvise(mmap.MADV_DONTNEED)
        identity = EmbeddingIdentity(MODEL, HIDDEN, precision, query_prefix, document_prefix)
        embedder = cls(session, tokenizer, checkpoint[WORD_EMBEDDINGS], identity, bulk_threads)
        embedder._warm_up()
        return embedder

    @property
    def identity(self) -> EmbeddingIdentity:
        """Identity of all vectors of this embedder."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text: 256, including the two special tokens."""
        return MAX_TOKENS

    @property
    def special_tokens(self) -> int:
        """Number of special tokens: one at the beginning and one at the end."""
        return SPECIAL_TOKENS

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
        if vectors.shape != (1, HIDDEN) or not np.isfinite(vectors).all():
            raise EmbeddingMismatch

    async def close(self) -> None:
        """Close the model: finish the current texts and end the threads."""
        for pool in (self._query_pool, self._bulk_pool):
            await asyncio.to_thread(pool.shutdown)

    async def _embed_all(
        self, pool: ThreadPoolExecutor, concurrency: int, prefix: str, texts: Sequence[str]
    ) -> Embeddings:
        vectors = np.empty((len(texts), HIDDEN), np.float32)
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
        ids = self._tokenizer.encode(_replace_surrogates(text[:MAX_CHARACTERS])).ids
        if len(ids) > MAX_TOKENS:
            ids = [*ids[: MAX_TOKENS - 1], ids[-1]]  # keep the special token at the end
        (vector,) = self._session.run(["embedding"], {"words": self._word_embeddings[ids]})[0]
        return np.asarray(vector, np.float32), len(ids)

    def _warm_up(self) -> None:
        self._query_pool.submit(self._embed, "warm").result()
        # The first batch starts the threads of the tokenizer, which inherit the priority of the calling thread. They
        # get a low priority here, so that counting the tokens of a large document does not delay queries.
        self._bulk_pool.submit(self.count_tokens, ["warm", "up"]).result()


def _create_session(tensors: Tensors, precision: Precision) -> onnxruntime.InferenceSession:
    """Create one session for all threads: with one intra-op thread each ``run`` stays on its caller's thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
    options.add_external_initializers(list(tensors), values)
    graph = resources.files("app.inference.embedding").joinpath(f"minilm_{precision}.onnx").read_bytes()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _load_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises no narrower class
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc
    # The file of the tokenizer requests truncation and padding to 128 tokens.
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

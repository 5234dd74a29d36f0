"""The embedded model: all-MiniLM-L6-v2 on the CPU, with a separate thread for queries and the bulk threads."""

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
# Ordinary text fills 256 tokens within 2,000 characters. Without a bound, a stray megabyte would be split into words
# only for its head to be kept.
MAX_CHARACTERS = 16_384
BULK_NICENESS = 10
# White space, and signs that are words of their own. Not "]", which ends marks such as "[SEP]".
_CUT_BEFORE = re.compile(r"[\s!-/:-@\[\\^_`{-~\u3400-\u4dbf\u4e00-\u9fff]")
# The tokenizer takes some hundred bytes for each token that it counts, until its call returns.
MAX_BATCH_CHARACTERS = 128 * 1024
MAX_WORD_CHARACTERS = 4096


class MiniLMEmbedder:
    """An Embedder of 384 dimensions that reads English best, and the first 256 tokens of a text.

    Texts run one by one, without padding, each on one thread: on a CPU a batch gains nothing. Bulk texts are handed to
    their threads one at a time, so that calls share them evenly and a cancelled call stops at the texts at work.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: Tokenizer,
        word_embeddings: npt.NDArray[np.float32],
        identity: EmbeddingIdentity,
        bulk_threads: int,
    ) -> None:
        """Take the parts that ``load`` has made; ``word_embeddings`` has the shape (vocabulary, 384)."""
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
        """Map the weights, make the session and run it once. Blocks for some 0.2 s with the interpreter's lock held, so
        it comes before serving. Raises WeightsDamaged.
        """
        mapping = map_file(weights_dir / "model.safetensors")
        tokenizer = _load_tokenizer(weights_dir / "tokenizer.json")
        checkpoint = read_checkpoint(mapping)
        session = _create_session(prepare_tensors(checkpoint, precision), precision)
        # onnxruntime has packed its own copy of the matrices: give the mapped pages back. What is still read, the rows
        # of the word embeddings, comes from the page cache again.
        if sys.platform == "linux":
            mapping.madvise(mmap.MADV_DONTNEED)
        identity = EmbeddingIdentity(MODEL, HIDDEN, precision, query_prefix, document_prefix)
        embedder = cls(session, tokenizer, checkpoint[WORD_EMBEDDINGS], identity, bulk_threads)
        embedder._warm_up()
        return embedder

    @property
    def identity(self) -> EmbeddingIdentity:
        """The identity of every vector it makes."""
        return self._identity

    @property
    def max_tokens(self) -> int:
        """256, the two special tokens included."""
        return MAX_TOKENS

    @property
    def special_tokens(self) -> int:
        """The marks of beginning and end."""
        return SPECIAL_TOKENS

    @property
    def image_embedder(self) -> None:
        """It reads text alone."""

    async def embed_documents(self, texts: Sequence[str], *, interactive: bool = False) -> Embeddings:
        """Embed texts at low priority, or with ``interactive`` like queries. Raises EmbeddingUnavailable after
        ``close``.

        Tokens are as the model reads them.
        """
        pool, concurrency = (self._query_pool, 1) if interactive else (self._bulk_pool, self._bulk_threads)
        return await self._embed_all(pool, concurrency, self._identity.document_prefix, texts)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries on a separate thread; shape (len(texts), 384). Raises EmbeddingUnavailable after ``close``."""
        return (await self._embed_all(self._query_pool, 1, self._identity.query_prefix, texts)).vectors

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text exactly, without special tokens. Blocking, CPU only.

        The memory that it takes does not grow with the texts: they are counted some at a time, and a long one in parts.
        """
        counts = [0] * len(texts)
        for batch in _split_batches(texts):
            parts = [_replace_surrogates(part) for _, part in batch]
            encodings = self._tokenizer.encode_batch_fast(parts, add_special_tokens=False)
            for (position, _), encoding in zip(batch, encodings, strict=True):
                counts[position] += len(encoding.ids)
        return counts

    async def check(self) -> None:
        """Embed one word. Raises EmbeddingUnavailable after ``close``, EmbeddingMismatch."""
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
            ids = [*ids[: MAX_TOKENS - 1], ids[-1]]  # the mark of the end stays
        (vector,) = self._session.run(["embedding"], {"words": self._word_embeddings[ids]})[0]
        return np.asarray(vector, np.float32), len(ids)

    def _warm_up(self) -> None:
        self._query_pool.submit(self._embed, "warm").result()
        # The tokenizer's own threads are started by its first batch and inherit that thread's priority: counting a
        # large document's tokens then takes all cores only as long as no query wants them.
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
    except Exception as exc:  # the library raises nothing narrower
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc
    # The file itself asks for 128 tokens, and for padding up to them.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _split_batches(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield the texts in batches of few characters, with their positions; a long text comes in parts."""
    batch: list[tuple[int, str]] = []
    remaining_characters = MAX_BATCH_CHARACTERS
    for position, text in enumerate(texts):
        for part in _split_text(text):
            # A short text costs more than its characters.
            remaining_characters -= len(part) + 16
            if remaining_characters < 0 and batch:
                yield batch
                batch, remaining_characters = [], MAX_BATCH_CHARACTERS - len(part) - 16
            batch.append((position, part))
    if batch:
        yield batch


def _split_text(text: str) -> Iterator[str]:
    """Yield a text in parts whose tokens are together the text's: each ends where the tokenizer cuts anyway.

    A word that is longer than ``MAX_WORD_CHARACTERS`` is one unknown token for the tokenizer, and may be one in each
    part.
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
    """Replace lone surrogates, which JSON can carry and no encoder takes."""
    return text.encode("utf-8", "replace").decode()


def _yield_to_queries() -> None:
    """Lower the calling thread's priority; only Linux has one a thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # Never raise it: a process that was itself started with a low priority may not.
        os.setpriority(os.PRIO_PROCESS, thread, max(BULK_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))

"""Local reranker: a cross-encoder in ONNX format, which runs on the CPU in separate threads."""

import asyncio
import math
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from app.inference.onnx_directory import open_model_directory
from app.inference.rerank import RerankUnavailable
from app.inference.rerank.cross_encoder import CrossEncoder, compute_score, create_run_options

MAX_THREADS = 4
NICENESS = 5


class LocalReranker:
    """Reranker with a cross-encoder. It has its own threads, whose priority is below that of the event loop.

    A call submits as many pairs at a time as there are threads, so concurrent calls share the threads evenly. A late or
    cancelled call submits no further pairs and ends those that run.
    """

    def __init__(self, name: str, encoder: CrossEncoder, *, max_characters: int, threads: int) -> None:
        """Create a reranker from a checked cross-encoder.

        Args:
            name: Name of the model.
            encoder: The cross-encoder.
            max_characters: Number of characters to which texts are cut before they are tokenized.
            threads: Number of pairs that are scored at the same time.
        """
        self._name = name
        self._encoder = encoder
        self._max_characters = max_characters
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "rerank", initializer=_lower_priority)

    @classmethod
    def load(cls, location: Path, *, max_tokens: int | None, max_characters: int, threads: int | None = None) -> Self:
        """Check a directory, load its model and check its scores. The call blocks.

        Args:
            location: Directory of the model, or one of several ONNX files in it.
            max_tokens: Maximum number of tokens of a pair; None uses the model's limit, at most 512.
            max_characters: Number of characters to which texts are cut.
            threads: Number of threads; None leaves one core free for requests, and uses at most four.

        Raises:
            LocalModelRefused: The directory or its model is not usable.
        """
        directory = open_model_directory(location)
        encoder = CrossEncoder.load(directory, max_tokens)
        thread_count = threads or min(max(1, len(os.sched_getaffinity(0)) - 1), MAX_THREADS)
        return cls(directory.name, encoder, max_characters=max_characters, threads=thread_count)

    @property
    def name(self) -> str:
        """Name of the directory, and the first digits of the model's hash."""
        return self._name

    async def rerank(
        self,
        query: str,
        texts: Sequence[str],
        *,
        top_n: int,  # noqa: ARG002  (all texts get a score)
        timeout_seconds: float,
    ) -> Mapping[int, float]:
        """Score all texts as ``Reranker.rerank`` does; blank texts get no score."""
        positions = [position for position, text in enumerate(texts) if text.strip()]
        if not query.strip() or not positions:
            return {}
        try:
            async with asyncio.timeout(timeout_seconds):
                scores = await self._score_all(
                    self._cut(query), {place: self._cut(texts[place]) for place in positions}
                )
        except TimeoutError as exc:
            raise RerankUnavailable("The reranker gave no answer in time.", reason="timeout") from exc
        except Exception as exc:  # onnxruntime has no common class of errors
            raise RerankUnavailable("The local reranker failed.", reason="failed") from exc
        finite = {place: score for place, score in scores.items() if math.isfinite(score)}
        if not finite:
            raise RerankUnavailable("The local reranker gave no score.", reason="failed")
        return finite

    async def close(self) -> None:
        """End the threads, after the pairs that run."""
        await asyncio.to_thread(self._pool.shutdown)

    async def _score_all(self, query: str, texts: Mapping[int, str]) -> dict[int, float]:
        loop = asyncio.get_running_loop()
        query_ids = await loop.run_in_executor(self._pool, self._encoder.encode_query, query)
        options = create_run_options()
        pending = iter(texts.items())
        scores: dict[int, float] = {}

        async def score_next() -> None:
            for position, text in pending:
                scores[position] = compute_score(
                    await loop.run_in_executor(self._pool, self._encoder.compute_logit, query_ids, text, options)
                )

        tasks = [asyncio.create_task(score_next()) for _ in range(min(self._threads, len(texts)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            options.terminate = True
            for task in tasks:
                task.cancel()
        return scores

    def _cut(self, text: str) -> str:
        """Remove leading white space, cut, and replace lone surrogates, which the tokenizer cannot encode."""
        return text.lstrip()[: self._max_characters].encode("utf-8", "replace").decode()


def _lower_priority() -> None:
    """Set a low priority for the calling thread. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A process with a low priority is not allowed to raise it.
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))

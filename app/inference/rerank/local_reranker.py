"""Local reranker: a cross-encoder in ONNX format that scores pairs of query and text on the CPU.

The model reads query and text together and gives one logit. The score is the sigmoid of the logit, from 0 to 1. A model
with two labels gives two logits. Its score is the softmax of the second label, which is the sigmoid of the difference
of the second and the first logit.
"""

import asyncio
import math
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime
from tokenizers import Encoding, Tokenizer

from app.inference.onnx_directory import LocalModelRefused, ModelDirectory, make_printable, open_model_directory
from app.inference.rerank import RerankUnavailable

DEFAULT_MAX_TOKENS = 512
"""Maximum number of tokens of a pair, if the settings have none. The model's own limit applies if it is lower."""

MAX_THREADS = 4
NICENESS = 5
INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})
INPUT_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
OUTPUT_TYPES = frozenset({"tensor(float)", "tensor(float16)", "tensor(double)"})
SILENT = 4
# Pairs of the check: a usable model gives different logits to different texts, and to different queries.
CHECK_TEXTS = ("A tern is a bird.", "A harbour is a place for ships.", "The invoice is paid in thirty days.")
CHECK_WORDS = 5
MIN_LOGIT_SPREAD = 1e-5
MAX_REASON_CHARACTERS = 200


class CrossEncoder:
    """Cross-encoder: one run of the session scores one pair, on the thread of its caller.

    Pairs are not batched. Padding would cost time, and the scores of quantized models would depend on other texts.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer, model_file: Path, max_tokens: int
    ) -> None:
        """Create a cross-encoder from the parts that ``load`` creates.

        Args:
            session: Session with the model.
            tokenizer: Tokenizer of the model, without padding and truncation.
            model_file: ONNX file, for error messages.
            max_tokens: Maximum number of tokens of a pair, with special tokens.

        Raises:
            LocalModelRefused: The inputs or outputs of the model are not those of a cross-encoder.
        """
        self._session = session
        self._tokenizer = tokenizer
        self._label = make_printable(model_file)
        self._max_content_tokens = max_tokens - tokenizer.num_special_tokens_to_add(is_pair=True)
        self._input_types = _check_inputs(session, self._label)
        self._output = _check_outputs(session, self._label)

    @classmethod
    def load(cls, directory: ModelDirectory, max_tokens: int | None) -> Self:
        """Load the model of a directory and check it with a few pairs. The call blocks.

        Args:
            directory: Checked directory of the model.
            max_tokens: Maximum number of tokens of a pair; None uses the model's limit, at most 512.

        Raises:
            LocalModelRefused: The model cannot be loaded, or its scores are not usable.
        """
        limit = max_tokens or min(directory.token_limit or DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS)
        tokenizer = _load_tokenizer(directory.tokenizer_file)
        encoder = cls(_create_session(directory.model_file), tokenizer, directory.model_file, limit)
        encoder.check()
        return encoder

    def encode_query(self, query: str) -> Encoding:
        """Return the tokens of a query, at most half of a pair."""
        encoding = self._tokenizer.encode(query, add_special_tokens=False)
        encoding.truncate(self._max_content_tokens // 2)
        return encoding

    def compute_logit(self, query: Encoding, text: str, run_options: onnxruntime.RunOptions | None = None) -> float:
        """Return the logit of a pair; with two labels, the difference of the second and the first logit.

        Args:
            query: Tokens of the query, from ``encode_query``.
            text: The text, which is cut to the rest of the token limit.
            run_options: Options of the run, by which another thread can end it.

        Returns:
            The logit, which may be not finite.

        Raises:
            LocalModelRefused: The model does not give one or two numbers.
            Exception: onnxruntime cannot run the model, or the run was ended.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        encoding.truncate(self._max_content_tokens - len(query.ids))
        pair = self._tokenizer.post_process(query, encoding)
        columns: dict[str, Sequence[int]] = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
            "position_ids": range(len(pair.ids)),
        }
        feeds = {name: np.array([columns[name]], kind) for name, kind in self._input_types.items()}
        logits = np.asarray(self._session.run([self._output], feeds, run_options)[0], np.float64).reshape(-1)
        if logits.size not in {1, 2}:
            raise LocalModelRefused(
                f"{self._label} gives {logits.size} numbers for a pair instead of one or two logits; "
                "it is not a cross-encoder."
            )
        return float(logits[0] if logits.size == 1 else logits[1] - logits[0])

    def check(self) -> None:
        """Score a few pairs, and one of the maximum length. The call blocks.

        Raises:
            LocalModelRefused: The model fails, gives a number that is not finite, or does not read query and text.
        """
        try:
            long_text = " ".join([*CHECK_TEXTS, *self._list_words()] * (self._max_content_tokens // 4 + 1))
            self._check_finite([self.compute_logit(self.encode_query(long_text), long_text)])
            is_text_read = is_query_read = False
            for texts in (CHECK_TEXTS, self._list_words()):
                rows = [[self.compute_logit(self.encode_query(query), text) for text in texts] for query in texts]
                self._check_finite(logit for row in rows for logit in row)
                is_text_read = is_text_read or _has_spread(rows)
                is_query_read = is_query_read or _has_spread([list(column) for column in zip(*rows, strict=True)])
                if is_text_read and is_query_read:
                    return
        except LocalModelRefused:
            raise
        except Exception as exc:  # onnxruntime has no common class of errors
            raise LocalModelRefused(f"{self._label} cannot be run: {_shorten(exc)}") from exc
        raise LocalModelRefused(f"{self._label} gives the same score to every {'query' if is_text_read else 'text'}.")

    def _check_finite(self, logits: Sequence[float] | Iterator[float]) -> None:
        if not all(math.isfinite(logit) for logit in logits):
            raise LocalModelRefused(f"{self._label} gives scores that are not finite numbers.")

    def _list_words(self) -> list[str]:
        """Return words of the tokenizer's vocabulary, because a small model may not know the words of the check."""
        size = self._tokenizer.get_vocab_size()
        places = {size * number // (CHECK_WORDS + 1) for number in range(1, CHECK_WORDS + 1)}
        words = (self._tokenizer.decode([place]) for place in sorted(places))
        return [word for word in words if word.strip()]


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
            threads: Number of threads; None uses the number of cores, at most four.

        Raises:
            LocalModelRefused: The directory or its model is not usable.
        """
        directory = open_model_directory(location)
        encoder = CrossEncoder.load(directory, max_tokens)
        thread_count = threads or min(len(os.sched_getaffinity(0)), MAX_THREADS)
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
        encoding = await loop.run_in_executor(self._pool, self._encoder.encode_query, query)
        options = onnxruntime.RunOptions()
        options.log_severity_level = SILENT
        pending = iter(texts.items())
        scores: dict[int, float] = {}

        async def score_next() -> None:
            for position, text in pending:
                scores[position] = compute_score(
                    await loop.run_in_executor(self._pool, self._encoder.compute_logit, encoding, text, options)
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


def compute_score(logit: float) -> float:
    """Return the sigmoid of a logit, from 0 to 1; not a number for a logit that is not finite."""
    if not math.isfinite(logit):
        return math.nan
    power = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else power) / (1.0 + power)


def _has_spread(rows: Sequence[Sequence[float]]) -> bool:
    """Return whether any row has different logits."""
    return any(max(row) - min(row) > MIN_LOGIT_SPREAD for row in rows if row)


def _create_session(model_file: Path) -> onnxruntime.InferenceSession:
    """Create one session for all threads: with one intra-op thread each ``run`` stays on its caller's thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = SILENT
    try:
        return onnxruntime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime has no common class of errors
        raise LocalModelRefused(f"{make_printable(model_file)} cannot be loaded: {_shorten(exc)}") from exc


def _load_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises no narrower class
        raise LocalModelRefused(f"{make_printable(path)} cannot be read: {_shorten(exc)}") from exc
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Special tokens in a text, such as "[SEP]", are ordinary words.
    tokenizer.encode_special_tokens = True
    return tokenizer


def _check_inputs(session: onnxruntime.InferenceSession, label: str) -> Mapping[str, Any]:
    """Return the types of the inputs by name."""
    types: dict[str, Any] = {}
    for item in session.get_inputs():
        if item.name not in INPUTS or item.type not in INPUT_TYPES:
            raise LocalModelRefused(f"{label} needs the input {item.name} of type {item.type}, which is not known.")
        types[item.name] = INPUT_TYPES[item.type]
    if "input_ids" not in types:
        raise LocalModelRefused(f"{label} has no input input_ids.")
    return types


def _check_outputs(session: onnxruntime.InferenceSession, label: str) -> str:
    """Return the name of the only output."""
    outputs = session.get_outputs()
    if len(outputs) != 1:
        names = ", ".join(item.name for item in outputs[:8])
        raise LocalModelRefused(f"{label} has {len(outputs)} outputs ({names}) instead of one.")
    if outputs[0].type not in OUTPUT_TYPES:
        raise LocalModelRefused(f"{label} has an output of type {outputs[0].type} instead of numbers.")
    return str(outputs[0].name)


def _shorten(error: Exception) -> str:
    """Return the message of an error in one short line."""
    line = make_printable(" ".join(str(error).split()))
    return line if len(line) <= MAX_REASON_CHARACTERS else f"{line[:MAX_REASON_CHARACTERS]}…"


def _lower_priority() -> None:
    """Set a low priority for the calling thread. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        # A process with a low priority is not allowed to raise it.
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))

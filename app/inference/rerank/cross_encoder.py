"""Cross-encoder in ONNX format: a model that reads a query and a text together, and gives one logit for the pair.

The score is the sigmoid of the logit, from 0 to 1. A model with two labels gives two logits. Its score is the
probability of the second label: the sigmoid of the second logit minus the first.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from app.inference.onnx_directory import LocalModelRefused, ModelDirectory, make_printable
from app.inference.onnx_session import create_session_options

DEFAULT_MAX_TOKENS = 512
"""Maximum number of tokens of a pair, if the settings have none. The model's own limit applies if it is lower."""

INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})
INPUT_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
OUTPUT_TYPES = frozenset({"tensor(float)", "tensor(float16)", "tensor(double)"})
SILENT = 4
# Pairs of the check: a usable model gives different logits to different texts, and to different queries.
CHECK_TEXTS = ("A tern is a bird.", "A harbour is a place for ships.", "The invoice is paid in thirty days.")
CHECK_WORDS = 5
MIN_CONTENT_TOKENS = 4
MIN_LOGIT_SPREAD = 1e-5
MAX_REASON_CHARACTERS = 200


class TokenizerFailed(ValueError):
    """The tokenizer cannot encode a text or a pair."""


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Order of special tokens around query and text, with the types of all tokens.

    Attributes:
        special_ids: Special tokens before the query, between query and text, and after the text.
        special_types: Their types.
        query_type: Type of the query's tokens.
        text_type: Type of the text's tokens.
    """

    special_ids: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    special_types: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    query_type: int
    text_type: int

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, query: str, text: str) -> Self:
        """Derive the template from the tokenizer's own encoding of a pair.

        Args:
            tokenizer: Tokenizer without truncation and padding.
            query: Any query with tokens.
            text: Any text with tokens.

        Raises:
            TokenizerFailed: The query does not come before the text, or one of them has no tokens.
        """
        pair = tokenizer.encode(query, text)
        query_ids, text_ids = (tokenizer.encode(each, add_special_tokens=False).ids for each in (query, text))
        ids, types = tuple(pair.ids), tuple(pair.type_ids)
        query_start = _find_sequence(ids, query_ids, 0)
        query_end = query_start + len(query_ids)
        text_start = _find_sequence(ids, text_ids, query_end)
        text_end = text_start + len(text_ids)
        return cls(
            (ids[:query_start], ids[query_end:text_start], ids[text_end:]),
            (types[:query_start], types[query_end:text_start], types[text_end:]),
            types[query_start],
            types[text_start],
        )

    @property
    def special_count(self) -> int:
        """Number of special tokens of a pair."""
        return sum(len(part) for part in self.special_ids)

    def join(self, query: Sequence[int], text: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the tokens of a pair and their types.

        Args:
            query: Tokens of the query.
            text: Tokens of the text.
        """
        (before, between, after), types = self.special_ids, self.special_types
        return (
            [*before, *query, *between, *text, *after],
            [*types[0], *[self.query_type] * len(query), *types[1], *[self.text_type] * len(text), *types[2]],
        )


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
            LocalModelRefused: The inputs or outputs of the model are not those of a cross-encoder, or the tokenizer
                cannot encode a pair.
        """
        self._session = session
        self._tokenizer = tokenizer
        self._label = make_printable(model_file)
        self._max_tokens = max_tokens
        with _refuse_failures(self._label, "has no usable tokenizer"):
            words = [*CHECK_TEXTS, *self._list_words()]
            self._template = PairTemplate.from_tokenizer(tokenizer, " ".join(words), " ".join(reversed(words)))
        self._max_content_tokens = max_tokens - self._template.special_count
        if self._max_content_tokens < MIN_CONTENT_TOKENS:
            raise LocalModelRefused(f"{self._label} reads only {max_tokens} tokens, which is too few for a pair.")
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
        tokenizer = _load_tokenizer(directory.tokenizer_file)
        own_limit = directory.token_limit or (tokenizer.truncation or {}).get("max_length") or DEFAULT_MAX_TOKENS
        limit = max_tokens or min(own_limit, DEFAULT_MAX_TOKENS)
        tokenizer.no_truncation()
        encoder = cls(_create_session(directory.model_file), tokenizer, directory.model_file, limit)
        encoder.check()
        return encoder

    def encode_query(self, query: str) -> list[int]:
        """Return the tokens of a query, at most half of a pair. Raises TokenizerFailed."""
        return self._encode(query)[: self._max_content_tokens // 2]

    def compute_logit(
        self, query_ids: Sequence[int], text: str, run_options: onnxruntime.RunOptions | None = None
    ) -> float:
        """Return the logit of a pair; with two labels, the difference of the second and the first logit.

        Args:
            query_ids: Tokens of the query, from ``encode_query``.
            text: The text, which is cut to the rest of the token limit.
            run_options: Options of the run, by which another thread can end it.

        Returns:
            The logit, which may be not finite.

        Raises:
            TokenizerFailed: The tokenizer cannot encode the text.
            LocalModelRefused: The model does not give one or two numbers.
            Exception: onnxruntime cannot run the model, or the run was ended.
        """
        text_ids = self._encode(text)[: self._max_content_tokens - len(query_ids)]
        ids, types = self._template.join(query_ids, text_ids)
        columns: dict[str, Sequence[int]] = {
            "input_ids": ids,
            "attention_mask": [1] * len(ids),
            "token_type_ids": types,
            "position_ids": range(len(ids)),
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
        long_text = " ".join([*CHECK_TEXTS, *self._list_words()] * (self._max_content_tokens // 4 + 1))
        with _refuse_failures(self._label, f"cannot read a pair of {self._max_tokens} tokens"):
            self._check_finite([self.compute_logit(self.encode_query(long_text), long_text)])
        is_text_read = is_query_read = False
        for texts in (CHECK_TEXTS, self._list_words()):
            with _refuse_failures(self._label, "cannot be run"):
                rows = [[self.compute_logit(self.encode_query(query), text) for text in texts] for query in texts]
            self._check_finite(logit for row in rows for logit in row)
            is_text_read = is_text_read or _has_spread(rows)
            is_query_read = is_query_read or _has_spread([list(column) for column in zip(*rows, strict=True)])
            if is_text_read and is_query_read:
                return
        raise LocalModelRefused(f"{self._label} gives the same score to every {'query' if is_text_read else 'text'}.")

    def _encode(self, text: str) -> list[int]:
        with _convert_panic():
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
            return ids

    def _check_finite(self, logits: Iterable[float]) -> None:
        if not all(math.isfinite(logit) for logit in logits):
            raise LocalModelRefused(f"{self._label} gives scores that are not finite numbers.")

    def _list_words(self) -> list[str]:
        """Return words of the tokenizer's vocabulary, because a small model may not know the words of the check."""
        size = self._tokenizer.get_vocab_size()
        places = {size * number // (CHECK_WORDS + 1) for number in range(1, CHECK_WORDS + 1)}
        words = (self._tokenizer.decode([place]) for place in sorted(places))
        return [word for word in words if word.strip()]


def compute_score(logit: float) -> float:
    """Return the sigmoid of a logit, from 0 to 1; not a number for a logit that is not finite."""
    if not math.isfinite(logit):
        return math.nan
    power = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else power) / (1.0 + power)


def create_run_options() -> onnxruntime.RunOptions:
    """Return options of runs, which end when ``terminate`` is set to true."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = SILENT
    return options


@contextmanager
def _convert_panic() -> Iterator[None]:
    """Raise TokenizerFailed instead of a panic of the tokenizers library, which is no ``Exception``."""
    try:
        yield
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":
            raise
        raise TokenizerFailed(str(exc)) from exc


@contextmanager
def _refuse_failures(label: str, problem: str) -> Iterator[None]:
    """Raise LocalModelRefused instead of any error of onnxruntime and tokenizers, which have no common classes."""
    try:
        with _convert_panic():
            yield
    except LocalModelRefused:
        raise
    except Exception as exc:
        raise LocalModelRefused(f"{label} {problem}: {_shorten(exc)}") from exc


def _find_sequence(ids: Sequence[int], part: Sequence[int], start: int) -> int:
    """Return the position of the first occurrence of a part. Raises TokenizerFailed."""
    for position in range(start, len(ids) - len(part) + 1):
        if part and list(ids[position : position + len(part)]) == list(part):
            return position
    raise TokenizerFailed("a pair is not the query followed by the text")


def _has_spread(rows: Sequence[Sequence[float]]) -> bool:
    """Return whether any row has different logits."""
    return any(max(row) - min(row) > MIN_LOGIT_SPREAD for row in rows if row)


def _create_session(model_file: Path) -> onnxruntime.InferenceSession:
    options = create_session_options()
    options.log_severity_level = SILENT  # the refusal has the message
    with _refuse_failures(make_printable(model_file), "cannot be loaded"):
        return onnxruntime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])


def _load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer. Its truncation stays on, because it has a token limit."""
    with _refuse_failures(make_printable(path), "cannot be read"):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
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

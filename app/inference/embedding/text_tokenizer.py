"""Tokenizers of local models: the protocol, and tokenizers of the library "tokenizers"."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from app.inference.embedding.weights import WeightsDamaged

# White space, and characters that the tokenizer takes as separate words. "]" is excluded, because it ends special
# tokens such as "[SEP]".
_CUT_BEFORE = re.compile(r"[\s!-/:-@\[\\^_`{-~\u3400-\u4dbf\u4e00-\u9fff]")
# The tokenizer uses about a hundred bytes for each token of a call, until the call returns.
MAX_BATCH_CHARACTERS = 128 * 1024
MAX_WORD_CHARACTERS = 4096


class TextTokenizer(Protocol):
    """Protocol of a model's tokenizer. Several threads may use it at the same time."""

    @property
    def special_tokens(self) -> int:
        """Number of special tokens that are added to a text."""

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Return the token ids of a text with the special tokens.

        Args:
            text: The text, with the prefix of a query or of a document.
            max_tokens: Maximum number of ids, special tokens included. Further tokens are omitted.
        """

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens. The call blocks."""


class LibraryTokenizer:
    """Tokenizer of the library "tokenizers"."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap a tokenizer that neither truncates nor pads."""
        self._tokenizer = tokenizer

    @property
    def special_tokens(self) -> int:
        """Number of special tokens that are added to a text."""
        return int(self._tokenizer.num_special_tokens_to_add(False))

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Return the token ids of a text with the special tokens.

        Args:
            text: The text, with the prefix of a query or of a document.
            max_tokens: Maximum number of ids, special tokens included. Further tokens are omitted.
        """
        encoding = self._tokenizer.encode(_replace_surrogates(text), add_special_tokens=False)
        encoding.truncate(max_tokens - self.special_tokens)
        return list(self._tokenizer.post_process(encoding).ids)

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


def load_tokenizer(path: Path) -> LibraryTokenizer:
    """Read a tokenizer, and turn off its truncation and padding. Raises WeightsDamaged."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises no narrower class
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc
    # Files of tokenizers often request truncation and padding to 128 tokens.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return LibraryTokenizer(tokenizer)


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

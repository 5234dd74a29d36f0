"""Deterministic vectors and token counts of texts, from their words alone."""

import hashlib
import math
import re
from functools import cache
from random import Random


@cache
def compute_word_vector(word: str, dimensions: int) -> tuple[float, ...]:
    """A random direction that depends on the word alone."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    rng = Random(seed)
    return tuple(rng.gauss(0.0, 1.0) for _ in range(dimensions))


def compute_text_vector(text: str, dimensions: int) -> list[float]:
    """The sum of the vectors of a text's words: texts that share words are close. Not of unit length."""
    words = re.findall(r"\w+", text.lower()) or [""]
    return [math.fsum(parts) for parts in zip(*(compute_word_vector(word, dimensions) for word in words), strict=True)]


def count_text_tokens(text: str) -> int:
    """What the endpoint counts: a token a word, and two marks."""
    return len(re.findall(r"\w+", text)) + 2

"""Vectors and token counts of texts that depend only on their words."""

import hashlib
import math
import re
from functools import cache
from random import Random


@cache
def compute_word_vector(word: str, dimensions: int) -> tuple[float, ...]:
    """Return a random direction whose seed is the word."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    rng = Random(seed)
    return tuple(rng.gauss(0.0, 1.0) for _ in range(dimensions))


def compute_text_vector(text: str, dimensions: int) -> list[float]:
    """Return the sum of the vectors of a text's words, not of unit length. Texts with common words are similar."""
    words = re.findall(r"\w+", text.lower()) or [""]
    return [math.fsum(parts) for parts in zip(*(compute_word_vector(word, dimensions) for word in words), strict=True)]


def count_text_tokens(text: str) -> int:
    """Return the number of tokens as the embedding server counts it: the number of words plus 2."""
    return len(re.findall(r"\w+", text)) + 2

"""Find the texts that support an answer by their words: the share of the answer's terms that each text contains."""

from collections.abc import Sequence

from app.lexical.analyzer import DEFAULT_LANGUAGE
from app.lexical.languages import tokenize_query

MIN_RATIO, MIN_RATIO_OF_BEST = 0.3, 0.6
"""Minimum share of the answer's terms, and minimum share relative to the best text."""


def compute_overlap_ratios(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[float]:
    """Compute the share of the answer's terms that each text contains.

    Args:
        answer: Text of the answer.
        texts: Texts to compare.
        languages: Languages whose analyzers make the terms; English by default.

    Returns:
        A number from 0 to 1 for each text.
    """
    text_languages = list(languages) or [DEFAULT_LANGUAGE]
    terms = set(tokenize_query(text_languages, answer))
    if not terms:
        return [0.0] * len(texts)
    return [len(terms.intersection(tokenize_query(text_languages, text))) / len(terms) for text in texts]


def find_overlapping_texts(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[int]:
    """Return the positions of the texts that contain many terms of the answer, the highest share first.

    Args:
        answer: Text of the answer.
        texts: Texts to compare.
        languages: Languages whose analyzers make the terms.
    """
    ratios = compute_overlap_ratios(answer, texts, languages=languages)
    min_ratio = max(MIN_RATIO, MIN_RATIO_OF_BEST * max(ratios, default=0.0))
    return sorted((index for index, ratio in enumerate(ratios) if ratio >= min_ratio), key=lambda index: -ratios[index])

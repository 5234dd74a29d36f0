"""Which sources an answer rests on as far as words can tell: the share of its terms that each of them holds (pure)."""

from collections.abc import Sequence

from app.lexical.analyzer import DEFAULT_LANGUAGE
from app.lexical.languages import tokenize_query

# Of the answer's terms; and of the share that the best source has.
MIN_RATIO, MIN_RATIO_OF_BEST = 0.3, 0.6


def compute_overlap_ratios(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[float]:
    """What part of the answer's terms each text holds: 0 to 1."""
    text_languages = list(languages) or [DEFAULT_LANGUAGE]
    terms = set(tokenize_query(text_languages, answer))
    if not terms:
        return [0.0] * len(texts)
    return [len(terms.intersection(tokenize_query(text_languages, text))) / len(terms) for text in texts]


def find_overlapping_texts(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[int]:
    """The places of those that hold much of the answer, most first; none where no text does."""
    ratios = compute_overlap_ratios(answer, texts, languages=languages)
    min_ratio = max(MIN_RATIO, MIN_RATIO_OF_BEST * max(ratios, default=0.0))
    return sorted((index for index, ratio in enumerate(ratios) if ratio >= min_ratio), key=lambda index: -ratios[index])

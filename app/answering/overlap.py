"""Which sources an answer rests on as far as words can tell: the share of its terms that each of them holds (pure)."""

from collections.abc import Sequence

from app.lexical.analyser import DEFAULT_LANGUAGE
from app.lexical.languages import query_tokens

# Of the answer's terms; and of the share that the best source has.
LEAST_SHARE, LEAST_OF_BEST = 0.3, 0.6


def shares(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[float]:
    """What part of the answer's terms each text holds: 0 to 1."""
    spoken = list(languages) or [DEFAULT_LANGUAGE]
    terms = set(query_tokens(spoken, answer))
    if not terms:
        return [0.0] * len(texts)
    return [len(terms.intersection(query_tokens(spoken, text))) / len(terms) for text in texts]


def overlapping(answer: str, texts: Sequence[str], *, languages: Sequence[str]) -> list[int]:
    """The places of those that hold much of the answer, most first; none where no text does."""
    found = shares(answer, texts, languages=languages)
    least = max(LEAST_SHARE, LEAST_OF_BEST * max(found, default=0.0))
    return sorted((place for place, share in enumerate(found) if share >= least), key=lambda place: -found[place])

"""The language of a text, if its script, its function words or the detector leave no doubt."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from app.lexical.detection import (
    classify_text,
    get_language_name,
    is_detector_loaded,
    load_detector_in_thread,
    sample_text,
)
from app.lexical.function_words import build_letter_index, build_word_index

ENGLISH = "english"

MIN_SCRIPT_SHARE = 0.4
"""Share of the letters that a script other than Latin needs; a letter of Chinese counts like three of an alphabet."""

MIN_WORDS = 2
"""Number of different function words that a language needs in a short text."""

MAX_MIN_WORDS = 6
"""Number of different function words that a language needs in a long text."""

WORDS_PER_MIN_WORD = 25
"""Number of words of a text for each further function word that a language needs."""

MIN_WORD_SHARE = 0.06
"""Share of the words of a text that must be function words of its language."""

CANDIDATE_SHARE = 0.7
"""Share of the best language's score from which another language counts as possible."""

ENGLISH_FACTOR = 2
"""Factor by which the score of English must exceed every other language's score for a text to be English."""

MIN_KANA_SHARE = 0.05
"""Share of kana from which a text with Chinese characters is Japanese."""

MIN_DETECTOR_WORDS = 5
"""Number of words that a text in doubt needs for the detector; the text must also have no English function word."""

MIN_DETECTOR_PROBABILITY = 0.8
"""Probability from which the detector decides. No English sentence of the evaluation sets reaches it."""

MIN_CAPITALIZED_SHARE = 0.85
"""Share of capitalized words from which a text is a list of names."""

_LETTER_WEIGHT = 0.5
# Languages that win against a similar language with the same score.
_WIDESPREAD = frozenset({"dutch", "french", "german", "hindi", "italian", "portuguese", "russian", "spanish"})
_NAME_PARTICLES = frozenset(
    {"al", "bin", "da", "de", "del", "della", "den", "der", "di", "do", "dos", "du", "e", "el", "la", "las", "le"}
    | {"los", "ten", "ter", "van", "von", "y"}
)
# Vowel signs of Indian scripts are no word characters of Python's. A single letter is a word between spaces alone:
# others are initials, signs and parts of names.
_LETTER = r"(?:[^\W\d_]|[\u0900-\u0dff])"
_TOKEN = re.compile(
    rf"{_LETTER}{{2,}}(?:['’](?={_LETTER}))?|{_LETTER}['’](?={_LETTER})|(?<!\S)(?:[a-z]|[^\W\d_A-Za-z])(?=\s)"
)
_ADDRESS = re.compile(r"https?://\S+")
# Ranges of scripts, with the weight of a letter. The languages of a script are found by function words if it has many.
_SCRIPTS: dict[str, tuple[str, float]] = {
    "latin": (r"A-Za-z\u00c0-\u024f\u1e00-\u1eff", 1),
    "kana": (r"\u3041-\u30ff\uff66-\uff9d", 3),
    "han": (r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f", 3),
    "hangul": (r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3", 3),
    "cyrillic": (r"\u0400-\u052f", 1),
    "greek": (r"\u0370-\u03ff\u1f00-\u1fff", 1),
    "armenian": (r"\u0531-\u0587", 1),
    "hebrew": (r"\u05d0-\u05ea", 1),
    "arabic": (r"\u0620-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff", 1),
    "devanagari": (r"\u0900-\u097f", 1),
    "bengali": (r"\u0980-\u09ff", 1),
    "tamil": (r"\u0b80-\u0bff", 1),
    "telugu": (r"\u0c00-\u0c7f", 1),
    "thai": (r"\u0e01-\u0e4e", 1),
    "georgian": (r"\u10a0-\u10ff\u1c90-\u1cbf", 1),
}
_SCRIPT_LANGUAGES: dict[str, tuple[str, ...]] = {
    "kana": ("japanese",),
    "han": ("chinese",),
    "hangul": ("korean",),
    "cyrillic": ("russian", "ukrainian", "bulgarian", "serbian", "macedonian", "belarusian"),
    "arabic": ("arabic", "persian", "urdu"),
    "devanagari": ("hindi", "marathi", "nepali"),
}


@dataclass(frozen=True, slots=True)
class TextLanguage:
    """Language of a text.

    Attributes:
        name: The most probable language, by the name of its analyzer if it has one.
        candidates: All languages that the text may have; ``name`` is one of them.
    """

    name: str
    candidates: frozenset[str]

    @property
    def is_english(self) -> bool:
        """Whether the text is certainly English."""
        return self.name == ENGLISH


def identify_language(text: str, *, can_wait: bool = True) -> TextLanguage | None:
    """Find the language of a text by its script and its function words, and in doubt by the detector.

    The time is a few milliseconds for any length: of a long text, windows at even distances are read.

    Args:
        text: Text of a document or a query.
        can_wait: Whether the call may load the detector, which takes a second and 120 MB. Otherwise the first text in
            doubt starts the load in a thread, and the call returns None.

    Returns:
        The language; None if the text leaves doubt. Names, numbers, code and short texts leave doubt.
    """
    sample = _ADDRESS.sub(" ", unicodedata.normalize("NFKC", sample_text(text)))
    tokens = _remove_name_particles(_TOKEN.findall(sample))
    evidence = _Evidence.collect([token.casefold().replace("’", "'") for token in tokens])
    script = _find_script(sample)
    if script is not None:
        return evidence.select_candidates(_SCRIPT_LANGUAGES.get(script, (script,)))
    language = _choose_latin_language(evidence)
    if language is not None or evidence.words[ENGLISH] or evidence.tokens < MIN_DETECTOR_WORDS:
        return language
    if can_wait or is_detector_loaded():
        return _detect(sample)
    load_detector_in_thread()
    return None


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Number of tokens, and for each language its function words, different function words and special letters."""

    tokens: int
    words: Counter[str]
    different_words: Counter[str]
    letters: Counter[str]

    @classmethod
    def collect(cls, tokens: Sequence[str]) -> Self:
        """Count the function words and the letters of tokens in lower case."""
        words, different_words, letters = Counter[str](), Counter[str](), Counter[str]()
        for token, count in Counter(tokens).items():
            languages = _load_word_index().get(token) or _load_word_index().get(token.rstrip("'"), frozenset())
            for language in languages:
                words[language] += count
            if ENGLISH not in languages:
                different_words.update(languages)
            if not token.isascii():
                letters.update(dict.fromkeys(_find_letter_languages(token), count))
        return cls(len(tokens), words, different_words, letters)

    def compute_score(self, language: str) -> float:
        """Return the weight of the evidence for a language."""
        return self.words[language] + _LETTER_WEIGHT * self.letters[language]

    def select_candidates(self, languages: Iterable[str]) -> TextLanguage:
        """Return the language with the highest score, with all languages whose score is close to it."""
        scores = {language: self.compute_score(language) for language in languages}
        name = max(scores, key=lambda language: (scores[language], language in _WIDESPREAD))
        close = [language for language, score in scores.items() if score >= CANDIDATE_SHARE * scores[name]]
        return TextLanguage(name, frozenset(close))


def _remove_name_particles(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of names without their small words, as in "Ludwig van Beethoven"; all tokens of other texts."""
    others = [token for token in tokens if token not in _NAME_PARTICLES]
    is_names = sum(token[0].isupper() for token in others) >= MIN_CAPITALIZED_SHARE * len(others)
    return others if is_names else list(tokens)


def _find_letter_languages(token: str) -> frozenset[str]:
    """Return the languages whose alphabets have all special letters of a token."""
    sets = [languages for letter in set(token) if (languages := _load_letter_index().get(letter))]
    return frozenset.intersection(*sets) if sets else frozenset()


def _find_script(text: str) -> str | None:
    """Return the script that has most letters of a text; None for Latin."""
    weights = {name: weight * len(pattern.findall(text)) for name, (pattern, weight) in _load_script_patterns().items()}
    latin = weights.pop("latin")
    total = latin + sum(weights.values())
    if weights["han"] and weights["kana"] > MIN_KANA_SHARE * weights["han"]:
        weights["kana"] += weights.pop("han")  # Japanese has both
    best = max(weights, key=weights.__getitem__)
    return best if weights[best] and weights[best] >= MIN_SCRIPT_SHARE * total else None


def _choose_latin_language(evidence: _Evidence) -> TextLanguage | None:
    """Return the language with most function words, if they are enough and more than the English ones."""
    english = evidence.compute_score(ENGLISH)
    names = sorted(evidence.different_words.keys() | evidence.letters.keys())
    if not names or english > ENGLISH_FACTOR * max(map(evidence.compute_score, names)):
        return TextLanguage(ENGLISH, frozenset([ENGLISH])) if english >= MIN_WORDS else None
    language = evidence.select_candidates(names)
    words, letters = evidence.words[language.name], evidence.letters[language.name]
    min_different = min(MIN_WORDS + evidence.tokens // WORDS_PER_MIN_WORD, MAX_MIN_WORDS)
    is_enough = words > 0 and evidence.different_words[language.name] + _LETTER_WEIGHT * letters >= min_different
    return language if is_enough and words > english and words >= MIN_WORD_SHARE * evidence.tokens else None


def _detect(sample: str) -> TextLanguage | None:
    """Return the language that the detector is sure of; None for English, which it says of code and names too."""
    code, probability = classify_text(sample)
    name = get_language_name(code)
    if name is None or name == ENGLISH or probability < MIN_DETECTOR_PROBABILITY:
        return None
    return TextLanguage(name, frozenset([name]))


@lru_cache(maxsize=1)
def _load_word_index() -> dict[str, frozenset[str]]:
    return build_word_index()


@lru_cache(maxsize=1)
def _load_letter_index() -> dict[str, frozenset[str]]:
    return build_letter_index()


@lru_cache(maxsize=1)
def _load_script_patterns() -> dict[str, tuple[re.Pattern[str], float]]:
    return {name: (re.compile(f"[{letters}]"), weight) for name, (letters, weight) in _SCRIPTS.items()}

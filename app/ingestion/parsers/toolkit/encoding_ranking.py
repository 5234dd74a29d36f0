"""Ranking of candidate encodings by the cost of the decoded text in the languages that use the encoding.

Each candidate decodes the same bytes, so the costs of two candidates are comparable: their difference is the logarithm
of the ratio of two probabilities. The languages of a candidate compete too, and the cheapest one counts.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.ingestion.parsers.toolkit.letter_costs import (
    LATIN_LANGUAGES,
    SIGN_LANGUAGES,
    measure_ascii_pairs,
    measure_pairs,
)

MAX_SAMPLE_BYTES = 4096
"""Number of bytes of words with other letters than those of ASCII that the ranking reads."""

MAX_WIDE_SAMPLE_BYTES = 2048
MAX_CONFIDENCE = 99
"""Highest confidence in percent, because a text can always be in an encoding without a candidate."""

MIN_CONFIDENCE = 50
"""Confidence in percent below which a text with a few characters of Western Europe is windows-1252."""

_COMMON_WESTERN = frozenset("äöüßÄÖÜéèêëàâçîïôûùœæáíóúñ¿¡ãõåøÅØÉÀÇ’‘“”„–—…€£©®°§«»´·½²³±µ×\u00a0")
_ASCII_SAMPLE_BYTES = 4096
_MAX_PRIOR, _PRIOR_WEIGHT = 8.0, 0.3
_OTHER_SCRIPT_COSTS = ((20, 4.0), (4, 2.0), (0, 0.0))
"""Costs of other scripts, by the minimum number of ASCII letters to each other character."""

_LONE_LETTER = re.compile(r"(?<![^\W\d_])[^\W\d_\x00-\x7f](?![^\W\d_])")
_LONE_LETTER_COST = 2.0

_TEMPERATURE = 2.0
"""Divisor of the costs: neighbouring pairs depend on each other, so their sum overstates the evidence."""

_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x19\x1c-\x1f\x7f]")
_CONTROL_COST = 20.0
# No multi-byte encoding has one of these bytes inside a character.
_WORD = re.compile(rb"[^\x00-\x2f;]++")
_WESTERN = "de fr es it pt nl da sv no fi en sq et"
_CENTRAL = "pl cs sk hu ro hr sl sq de"
_BALTIC = "lt lv et"
_CYRILLIC = "ru uk bg mk"
_OTHER_LANGUAGES = (*SIGN_LANGUAGES, "ru", "uk", "bg", "mk", "el", "he", "ar", "fa", "ur", "th")
_ALL_LANGUAGES = (*LATIN_LANGUAGES, *_OTHER_LANGUAGES)
_WIDE_RARITY = 3.0


@dataclass(frozen=True, slots=True)
class RankedEncoding:
    """An encoding with the confidence that a text is in it.

    Attributes:
        name: Python's name of the encoding.
        confidence: Confidence in percent, from 0 to 99.
    """

    name: str
    confidence: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An encoding, the languages of its texts, and a cost that is higher for rare encodings."""

    encoding: str
    languages: tuple[str, ...]
    rarity: float


def _list_candidates(*rows: tuple[str, str, float]) -> tuple[_Candidate, ...]:
    return tuple(_Candidate(encoding, tuple(languages.split()), rarity) for encoding, languages, rarity in rows)


# If two candidates decode a text to the same characters, the first one gives its name to the result.
_CANDIDATES = _list_candidates(
    ("cp1252", _WESTERN, -2.0),
    ("cp1250", _CENTRAL, 1.0),
    ("cp1251", _CYRILLIC, 0.0),
    ("cp1253", "el", 0.0),
    ("cp1254", "tr de", 1.0),
    ("cp1255", "he", 0.0),
    ("cp1256", "ar fa ur", 0.0),
    ("cp1257", _BALTIC, 2.0),
    ("cp1258", "vi", 1.0),
    ("cp874", "th", 0.0),
    ("cp932", "ja", 0.0),
    ("gb18030", "zh zh-tw", 0.0),
    ("cp950", "zh-tw", 0.0),
    ("cp949", "ko", 0.0),
    ("euc_jp", "ja", 0.5),
    ("koi8-r", "ru bg", 1.0),
    ("koi8-u", "uk", 1.0),
    ("iso8859-2", _CENTRAL, 2.0),
    ("iso8859-5", _CYRILLIC, 2.0),
    ("iso8859-6", "ar", 1.5),
    ("iso8859-7", "el", 1.5),
    ("iso8859-8", "he", 1.5),
    ("iso8859-4", _BALTIC, 4.0),
    ("iso8859-15", _WESTERN, 4.0),
    ("big5hkscs", "zh-tw", 2.0),
    ("mac_cyrillic", "ru uk bg mk", 3.0),
    ("mac_roman", _WESTERN, 3.0),
    ("mac_latin2", _CENTRAL, 4.0),
    ("mac_greek", "el", 4.0),
    ("mac_turkish", "tr", 4.0),
    ("cp866", "ru bg", 1.0),
    ("cp855", _CYRILLIC, 3.5),
    ("johab", "ko", 3.0),
    ("cp850", _WESTERN, 3.0),
    ("cp437", _WESTERN, 3.5),
    ("cp852", _CENTRAL, 3.5),
    ("cp737", "el", 3.0),
    ("cp857", "tr", 3.5),
    ("cp862", "he", 3.0),
    ("cp775", _BALTIC, 4.0),
)


def rank_encodings(data: bytes) -> list[RankedEncoding]:
    """Rank the encodings of a text that is not UTF-8. The time does not depend on the length of the data.

    Args:
        data: Bytes at the start of the text.

    Returns:
        The encodings with their confidence, the best one first. Encodings that give the same text are one entry.
    """
    ranked = _rank(_take_sample(data), _CANDIDATES, _measure_priors(data))
    if ranked[0].confidence < MIN_CONFIDENCE and _is_western(data):
        return [RankedEncoding("cp1252", ranked[0].confidence), *ranked]
    return ranked


def _is_western(data: bytes) -> bool:
    """Return whether the text is mostly ASCII, and its other characters are common in Western Europe."""
    text = data[:_ASCII_SAMPLE_BYTES].decode("cp1252", "replace")
    foreign = [character for character in text if character > "\x7f"]
    plain = sum(character.isalnum() and character.isascii() for character in text)
    return len(foreign) <= plain and _COMMON_WESTERN.issuperset(foreign)


def rank_wide_encodings(data: bytes, encodings: Sequence[str]) -> list[RankedEncoding]:
    """Rank encodings of two or four bytes a character together with all other encodings.

    Args:
        data: Bytes at the start of the text.
        encodings: Names of the encodings in which the data is text.

    Returns:
        The encodings with their confidence, the best one first.
    """
    wide = tuple(_Candidate(name, _ALL_LANGUAGES, _WIDE_RARITY) for name in encodings)
    sample = data[:MAX_WIDE_SAMPLE_BYTES]
    return _rank(sample, (*_CANDIDATES, *wide), _measure_priors(sample))


def _rank(sample: bytes, candidates: Iterable[_Candidate], priors: Mapping[str, float]) -> list[RankedEncoding]:
    costs: dict[str, tuple[float, str]] = {}
    for candidate in candidates:
        text = sample.decode(candidate.encoding, "replace")
        if candidate.encoding == "cp1258":
            text = unicodedata.normalize("NFC", text)
        cost = candidate.rarity + min(_list_costs(text, candidate.languages, priors))
        costs.setdefault(text, (cost, candidate.encoding))
        if cost < costs[text][0]:
            costs[text] = (cost, costs[text][1])
    ranked = sorted(costs.values())
    weights = [math.exp((ranked[0][0] - cost) / _TEMPERATURE) for cost, _ in ranked]
    total = sum(weights)
    return [
        RankedEncoding(name, min(round(100 * weight / total), MAX_CONFIDENCE))
        for (_, name), weight in zip(ranked, weights, strict=True)
    ]


def _take_sample(data: bytes) -> bytes:
    """Return the first words with bytes above ASCII, separated by a space."""
    words, size = [], 0
    for match in _WORD.finditer(data):
        if match[0].isascii():
            continue
        words.append(match[0][: MAX_SAMPLE_BYTES - size])
        size += len(words[-1]) + 1
        if size >= MAX_SAMPLE_BYTES:
            break
    return b" " + b" ".join(words) + b" "


def _measure_priors(data: bytes) -> Mapping[str, float]:
    """Return the cost of each language of the Latin script from the ASCII letters of the text."""
    text = data[:_ASCII_SAMPLE_BYTES].decode("ascii", "replace").lower()
    letters, foreign = sum(character.isalpha() for character in text), text.count("\ufffd")
    cost_of_others = next(cost for share, cost in _OTHER_SCRIPT_COSTS if letters >= share * foreign)
    others = dict.fromkeys(_OTHER_LANGUAGES, cost_of_others)
    pairs = _count_pairs(text)
    costs = {language: measure_ascii_pairs(pairs, language) for language in LATIN_LANGUAGES}
    lowest = min(costs.values())
    return others | {language: min(_PRIOR_WEIGHT * (cost - lowest), _MAX_PRIOR) for language, cost in costs.items()}


def _list_costs(text: str, languages: Iterable[str], priors: Mapping[str, float]) -> list[float]:
    pairs = _count_pairs(text)
    controls = _CONTROL_COST * len(_CONTROLS.findall(text))
    lone = _LONE_LETTER_COST * len(_LONE_LETTER.findall(text))
    return [
        controls
        + (0.0 if language in SIGN_LANGUAGES else lone)
        + measure_pairs(pairs, language)
        + priors.get(language, 0.0)
        for language in languages
    ]


def _count_pairs(text: str) -> list[tuple[str, int]]:
    return list(Counter(map("".join, pairwise(text))).items())

"""Analyzer: conversion of a text to terms, with the same rules for documents and queries.

The analyzer normalizes and casefolds the text, splits it into Unicode words, drops stop words, and stems with Snowball.
An identifier yields itself and its parts. Numbers stay whole. Scripts without spaces between words become character
bigrams.
"""

import re
import unicodedata
from functools import lru_cache
from threading import Lock

import Stemmer

from app.errors import InvalidInputError
from app.lexical.stop_words import get_stop_words
from app.text_normalization import fold_text

DEFAULT_LANGUAGE = "english"
# Increase the version when any analyzer returns different terms for a text: the version is part of the index identity.
_VERSION = 1
# Algorithms of Snowball that are variants of english and dutch, kept there for comparison.
_NOT_LANGUAGES = frozenset({"porter", "lovins", "dutch_porter"})
# Languages whose own script becomes bigrams. The other words in such texts are mostly English.
_BIGRAM_LANGUAGES = frozenset({"chinese", "japanese", "korean", "thai"})
_MAX_CACHED_WORDS = 40_000
_MAX_CACHED_WORD_LENGTH = 40
_MAX_TERM_LENGTH = 256

# Han, Kana, Bopomofo, Hangul and the South-East Asian scripts: no spaces between words, or (Hangul) rich endings.
_BIGRAM_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3031-\u3035\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U000323af"
)
# `\w` does not match combining marks, which are parts of letters in Indic, Arabic and Hebrew scripts.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0dff\u0f18-\u0fbc"
)
_BIGRAM_RUN = re.compile(f"([{_BIGRAM_SCRIPTS}]+)")
_APOSTROPHES = "'\u2019\u02bc"
_LETTER = rf"[\w{_MARKS}]"
# A word continues across a comma or full stop between digits (1,000.5), and across a hyphen, full stop or apostrophe
# between letters. C++ and C# keep their signs.
_BOUND = r"(?:(?:[-.{a}]|(?<=\d),(?=\d)){w}+)*(?:\+\+(?!\w)|\#(?!\w))?"
_ASCII_WORD = re.compile(r"\w+" + _BOUND.format(a=_APOSTROPHES, w=r"\w"))
_WORD = re.compile(_LETTER + "+" + _BOUND.format(a=_APOSTROPHES, w=_LETTER))

_APOSTROPHE = re.compile(f"[{_APOSTROPHES}]")
_CUT_AT = re.compile(rf"[-.,_{_APOSTROPHES}+#]+")
_PLAIN = re.compile(rf"[^-.,_{_APOSTROPHES}+#]+")
_CONTRACTION = re.compile(rf"[{_APOSTROPHES}](?:s|d|m|t|ll|re|ve)$", re.IGNORECASE)
_NEGATION = re.compile(rf"n[{_APOSTROPHES}]t$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_VERSION_NUMBER = re.compile(r"[vV](\d+(?:\.\d+)+)")
_CAMEL = re.compile(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]")
_CAMEL_PART = re.compile(r"[A-Z]{2,}s?(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z\d]+|[A-Z\d]+|[^A-Za-z\d]+")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_PLURAL_ACRONYM = re.compile(r"[A-Z\d]{2,}s")


class Analyzer:
    """Analyzer of one language, safe to share between threads."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.name = f"{language}-v{_VERSION}"
        words = DEFAULT_LANGUAGE if language in _BIGRAM_LANGUAGES else language
        self._is_english = words == "english"
        self.stop_words = get_stop_words(words)
        self._stemmer = Stemmer.Stemmer(words, 0)
        # A Snowball stemmer keeps state between its C calls, so one thread uses it at a time.
        self._stemmer_lock = Lock()
        self._terms_cache: dict[str, tuple[str, ...]] = {}

    def tokenize(self, text: str) -> list[str]:
        """Split a text into terms.

        Args:
            text: Text of a document or a query.

        Returns:
            The terms in the order of the text, with repeats. The parts of an identifier follow the whole identifier.
        """
        clean = fold_text(text)
        if clean.isascii():
            return self._analyze_words(_ASCII_WORD.findall(clean))
        clean = clean.replace("\u2010", "-")  # a hyphen that NFKC does not replace
        runs = _BIGRAM_RUN.split(clean)
        terms: list[str] = []
        for index, run in enumerate(runs):
            terms += _split_bigrams(run) if index % 2 else self._analyze_words(_WORD.findall(run))
        return terms

    def _analyze_words(self, words: list[str]) -> list[str]:
        result: list[str] = []
        cache = self._terms_cache
        for word in words:
            terms = cache.get(word)
            if terms is None:
                terms = self._analyze_word(word)
            result += terms
        return result

    def _analyze_word(self, word: str) -> tuple[str, ...]:
        terms = tuple(term[:_MAX_TERM_LENGTH] for term in self._compute_terms(word))
        if len(word) <= _MAX_CACHED_WORD_LENGTH:
            # A full cache is cleared as a whole: a text refills it in milliseconds, and clearing needs no lock.
            if len(self._terms_cache) >= _MAX_CACHED_WORDS:
                self._terms_cache.clear()
            self._terms_cache[word] = terms
        return terms

    def _compute_terms(self, word: str) -> list[str]:
        if self._is_english:
            if _NEGATION.search(word):
                return []
            word = _CONTRACTION.sub("", word)
        word = word.strip("_")
        if not word:
            return []
        if _INITIALS.fullmatch(word):
            word = word.replace(".", "")
        if _NUMBER.fullmatch(word):
            return [word.replace(",", "") if _THOUSANDS.fullmatch(word) else word]
        if _PLAIN.fullmatch(word) and not _is_camel(word):
            return self._stem(word)
        return self._split_identifier(word)

    def _split_identifier(self, word: str) -> list[str]:
        """Return the whole identifier and then its parts. At an apostrophe, only the parts count (l'homme, O'Brien)."""
        divided = _APOSTROPHE.split(word)
        if len(divided) > 1:
            return [term for piece in divided if piece for term in self._compute_terms(piece)]
        # Writers disagree on hyphens, so "follow-up" also yields followup, and "AB-1234" also yields AB1234.
        joined = _casefold(word).replace("-", "")
        if joined.isalpha():
            full_forms = self._stem(joined)
        else:
            full_forms = [_casefold(word)]
            if joined != full_forms[0] and not joined.isdigit():
                full_forms.append(joined)
        version = _VERSION_NUMBER.fullmatch(word)
        if version:
            full_forms.append(version[1])
        return full_forms + [term for part in _split_parts(word) for term in self._stem(part) if term not in full_forms]

    def _stem(self, word: str) -> list[str]:
        folded = _casefold(word)
        if folded in self.stop_words:
            return []
        with self._stemmer_lock:
            return [self._stemmer.stemWord(folded[:_MAX_TERM_LENGTH])]


def get_analyzer(language: str = DEFAULT_LANGUAGE) -> Analyzer:
    """Return the analyzer of a language, which is created once in a process.

    Raises:
        InvalidInputError: The language has no analyzer. The error lists the supported languages.
    """
    return _load_analyzer(language)


@lru_cache(maxsize=64)
def _load_analyzer(language: str) -> Analyzer:
    supported = list_languages()
    if language not in supported:
        raise InvalidInputError(
            f"Unknown language. Use one of {', '.join(supported)}.", loc=("body", "language"), supported=supported
        )
    return Analyzer(language)


def get_auto_analyzer_id() -> str:
    """Return the analyzer id of an index in which each document is analyzed in its own language."""
    return f"auto-v{_VERSION}"


def list_languages() -> list[str]:
    """Return the languages that have an analyzer, sorted."""
    return sorted((set(Stemmer.algorithms()) - _NOT_LANGUAGES) | _BIGRAM_LANGUAGES)


def _casefold(word: str) -> str:
    folded = word.casefold()
    return folded if folded.isascii() else unicodedata.normalize("NFKC", folded)


def _split_bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _is_camel(word: str) -> bool:
    return bool(_CAMEL.search(word)) and not _PLURAL_ACRONYM.fullmatch(word)


def _split_parts(word: str) -> list[str]:
    """Return the parts of an identifier. Single digits carry no meaning (v2.3.1) and are left out."""
    pieces = [piece for piece in _CUT_AT.split(word) if piece]
    parts: list[str] = []
    for piece in pieces:
        if len(pieces) > 1:
            parts.append(piece)
        if len(pieces) == 1 or _is_camel(piece):
            # A single letter split off by case is noise (iPhone, mRNA). A single letter split off by a sign is a name
            # (x_y).
            parts += [part for part in _CAMEL_PART.findall(piece) if len(part) > 1]
    return [part for part in dict.fromkeys(parts) if not (len(part) == 1 and part.isdigit())]

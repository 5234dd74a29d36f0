"""Analyzer: conversion of a text to terms, with the same rules for documents and queries.

The analyzer folds the text, splits it into Unicode words, drops stop words, and stems with Snowball. An identifier
yields itself and its parts. Numbers stay whole. Scripts without spaces between words become character bigrams.
"""

import re
import unicodedata
from collections.abc import Sequence
from threading import Lock

import Stemmer

from app.lexical.index_folding import fold_for_index
from app.lexical.numbers import list_number_terms, list_spaced_numbers
from app.lexical.stop_words import get_stop_words
from app.lexical.word_patterns import (
    APOSTROPHES,
    BIGRAM_RUN,
    CAMEL_PART,
    INITIALS,
    LETTER,
    NUMBER,
    VERSION,
    is_camel,
    split_bigrams,
)

DEFAULT_LANGUAGE = "english"
CURRENT_VERSION = 2
"""Version of the analyzer, a part of the index identity. Increase it when a text gets different terms."""

STOP_WORD_MARK = "="
"""First character of the term of a stop word. No other term begins with it."""

# Languages whose own script becomes bigrams. The other words in such texts are mostly English.
BIGRAM_LANGUAGES = frozenset({"chinese", "japanese", "korean", "thai"})
_MAX_CACHED_WORDS = 40_000
_MAX_CACHED_WORD_LENGTH = 40
MAX_TERM_LENGTH = 256
# Stop words are terms in runs of at least four (to be or not to be), and in texts of at most twenty words.
_MIN_STOP_WORD_RUN = 4
_SHORT_TEXT_WORDS = 20
# Number of places of a capitalized stop word that are examined: the number of places of all texts is not limited.
_MAX_PLACES = 50

# A word continues across a comma or full stop between digits (1,000.5). It continues across a hyphen, full stop or
# apostrophe between letters, and across a non-joiner (Persian). C++17 and C# keep their signs, and 10^6 its power.
_SIGNS = r"(?:\+\+(?!\w)|\#(?!\w)|(?<=[^\W\d_])(?:\+\+|\#)\d+(?!\w))?"
_BOUND = r"(?:(?:[-.{a}]|(?<=\d),(?=\d)|(?<=\d)\^-?(?=\d)){w}+)*" + _SIGNS
_ASCII_WORD = re.compile(r"\w+" + _BOUND.format(a="'", w=r"\w"))
_WORD = re.compile(LETTER + "+" + _BOUND.format(a=APOSTROPHES + "\u200c", w=LETTER))
_MAX_TITLE_LENGTH = 12

_JOINERS = re.compile(f"[{APOSTROPHES}\u200c]")
_CUT_AT = re.compile(rf"[-.,_^{APOSTROPHES}+#]+")
_PLAIN = re.compile(rf"[^-.,_^{APOSTROPHES}\u200c+#]+")
_CONTRACTION = re.compile(rf"[{APOSTROPHES}](?:s|d|m|t|ll|re|ve)$", re.IGNORECASE)
_NEGATION = re.compile(rf"n[{APOSTROPHES}]t$", re.IGNORECASE)
_VERSION_PART = re.compile(r"\d+(?:\.\d+)+")
_SIGNED = re.compile(r"([^\W\d_]+(?:\+\+|\#))(\d+)")
# Ph.D, M.Sc: short pieces between full stops.
_ABBREVIATION = re.compile(r"[^\W\d_]{1,3}(?:\.[^\W\d_]{1,3})+")
_WORD_NUMBER = re.compile(r"([^\W\d_]{2,})(\d+)")
_NUMBER_WORD = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]+[23]?)")
_ORDINALS = frozenset({"st", "nd", "rd", "th"})


class Analyzer:
    """Analyzer of one language, safe to share between threads."""

    version = CURRENT_VERSION

    def __init__(self, language: str) -> None:
        self.language = language
        self.name = f"{language}-v{self.version}"
        words = DEFAULT_LANGUAGE if language in BIGRAM_LANGUAGES else language
        self._is_english = words == "english"
        self._is_turkish = words == "turkish"
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
            Stop words have no terms.
        """
        clean = fold_for_index(text)
        return self._analyze_parts(_split_words(clean)) + list_spaced_numbers(clean)

    def tokenize_document(self, text: str) -> list[str]:
        """Split the text of a document into terms, with terms for the stop words that a reader may search for.

        These stop words are words in capitals (IT), two capitalized words in a row (The Who), and a capitalized word
        inside a sentence. A line of one word, long runs (to be or not to be) and a short text count too.

        Returns:
            The terms of ``tokenize``, then the marked terms of stop words.
        """
        clean = fold_for_index(text)
        parts = _split_words(clean)
        terms = self._analyze_parts(parts) + list_spaced_numbers(clean)
        word_lists = [part for part in parts if isinstance(part, list)]
        is_short = sum(map(len, word_lists)) <= _SHORT_TEXT_WORDS
        selected: list[str] = []
        for words in word_lists:
            find_cached = self._terms_cache.get
            flags = [not find_cached(word, True) for word in words]  # a long word, which is not cached, is no stop word
            if is_short:
                selected += [word for word, flag in zip(words, flags, strict=True) if flag]
            elif True in flags:
                selected += _select_stop_words(words, flags, clean)
        if not is_short:
            lines = [line.strip() for line in clean.split("\n") if len(line) <= _MAX_TITLE_LENGTH]
            selected += [line for line in lines if self._casefold(line) in self.stop_words]
        return terms + self._mark_stop_words(selected)

    def tokenize_stop_words(self, query: str) -> list[str]:
        """Return the marked terms of all stop words of a query. They find chunks if a query has no other words."""
        words = [word for part in _split_words(fold_for_index(query)) if isinstance(part, list) for word in part]
        return self._mark_stop_words([word for word in words if not self._find_terms(word)])

    def _mark_stop_words(self, words: Sequence[str]) -> list[str]:
        terms = [self._mark_stop_word(word) for word in words]
        return [term for term in terms if len(term) > len(STOP_WORD_MARK)]

    def _mark_stop_word(self, word: str) -> str:
        if self._is_english:
            word = _CONTRACTION.sub("", word)
        return STOP_WORD_MARK + _JOINERS.sub("", self._casefold(word)).strip("_")[:MAX_TERM_LENGTH]

    def _analyze_parts(self, parts: Sequence[list[str] | str]) -> list[str]:
        terms: list[str] = []
        for part in parts:
            terms += self._analyze_words(part) if isinstance(part, list) else split_bigrams(part)
        return terms

    def _analyze_words(self, words: Sequence[str]) -> list[str]:
        result: list[str] = []
        cache = self._terms_cache
        for word in words:
            terms = cache.get(word)
            if terms is None:
                terms = self._find_terms(word)
            result += terms
        return result

    def _find_terms(self, word: str) -> tuple[str, ...]:
        terms = self._terms_cache.get(word)
        if terms is not None:
            return terms
        terms = tuple(term[:MAX_TERM_LENGTH] for term in self._compute_terms(word))
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
        if INITIALS.fullmatch(word):
            word = word.replace(".", "")
        if NUMBER.fullmatch(word):
            return list_number_terms(word)
        if _PLAIN.fullmatch(word) and not is_camel(word):
            parts = split_digits(word)
            if not parts:
                return self._stem(word)
            whole = self._stem(word)
            return whole + [term for part in parts for term in self._analyze_part(part) if term not in whole]
        return self._split_identifier(word)

    def _analyze_part(self, part: str) -> list[str]:
        return list_number_terms(part) if NUMBER.fullmatch(part) else self._stem(part)

    def _split_identifier(self, word: str) -> list[str]:
        """Return the whole identifier and then its parts."""
        pieces = [piece for piece in _JOINERS.split(word) if piece]
        if len(pieces) != 1 or pieces[0] != word:
            return self._join_pieces(pieces) + [term for piece in pieces for term in self._compute_terms(piece)]
        # Writers disagree on hyphens, so "follow-up" also yields followup, and "AB-1234" also yields AB1234.
        joined = self._casefold(word).replace("-", "")
        if joined.isalpha():
            full_forms = self._stem(joined)
        else:
            full_forms = [self._casefold(word)]
            if joined != full_forms[0] and not joined.isdigit():
                full_forms.append(joined)
        version = VERSION.fullmatch(word)
        versions = [version[1]] if version else _VERSION_PART.findall(word)
        extra_forms = versions + [form for match in [_SIGNED.fullmatch(word)] if match for form in match.groups()]
        if _ABBREVIATION.fullmatch(word) and min(map(len, word.split("."))) == 1:
            extra_forms.append(word.replace(".", ""))
        full_forms += [form for form in map(self._casefold, extra_forms) if form not in full_forms]
        parts = [term for part in list_parts(word) for term in self._analyze_part(part)]
        return full_forms + [term for term in dict.fromkeys(parts) if term not in full_forms]

    def _join_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the form without apostrophes or non-joiners (OBrien), but not of an elision (l'homme)."""
        joined = "".join(pieces)
        if joined.isdigit() and all(len(piece) == 3 for piece in pieces[1:]):
            return [joined]  # 1'000 in Switzerland
        is_elision = len(pieces) < 2 or self._casefold(pieces[0]) in self.stop_words
        return [] if is_elision or not all(map(str.isalpha, pieces)) else self._stem(joined)

    def _stem(self, word: str) -> list[str]:
        folded = self._casefold(word)
        if folded in self.stop_words:
            return []
        with self._stemmer_lock:
            stem = self._stemmer.stemWord(folded[:MAX_TERM_LENGTH])
        # Capitals without their dot (INTERNET) and keyboards without the dotless letter write both as one.
        return [stem.replace("\u0131", "i") if self._is_turkish else stem]

    def _casefold(self, word: str) -> str:
        if self._is_turkish:
            word = word.replace("\u0130", "i").replace("I", "\u0131")
        folded = word.casefold()
        return folded if folded.isascii() else unicodedata.normalize("NFKC", folded.replace("i\u0307", "i"))


def _split_words(clean: str) -> list[list[str] | str]:
    """Return lists of words, and between them the runs of characters that become bigrams."""
    if clean.isascii():
        return [_ASCII_WORD.findall(clean)]
    runs = BIGRAM_RUN.split(clean)
    return [run if index % 2 else _WORD.findall(run) for index, run in enumerate(runs)]


def _select_stop_words(words: Sequence[str], flags: Sequence[bool], text: str) -> list[str]:
    """Return the stop words of a text in capitals, two capitalized ones in a row, inner capitals, and long runs.

    Args:
        words: Words of the text.
        flags: Whether each word is a stop word.
        text: The text.
    """
    selected: list[str] = []
    run: list[str] = []
    capitalized: set[str] = set()
    for word, flag in zip((*words, ""), (*flags, False), strict=True):
        if flag:
            if word[0].isupper():
                if word.isupper() and len(word) > 1:
                    selected.append(word)
                elif run and run[-1][0].isupper():
                    selected += run[-1], word
                else:
                    capitalized.add(word)
            run.append(word)
        elif run:
            if len(run) >= _MIN_STOP_WORD_RUN:
                selected += run
            run = []
    return selected + [word for word in sorted(capitalized) if _is_inside_sentence(word, text)]


def _is_inside_sentence(word: str, text: str) -> bool:
    """Return whether a word follows a lowercase letter or a comma and a space at one of its first places."""
    position = text.find(f" {word}", 1)
    for _ in range(_MAX_PLACES):
        if position < 0:
            return False
        before, after = text[position - 1], text[position + len(word) + 1 : position + len(word) + 2]
        if (before.islower() or before == ",") and not after.isalnum():
            return True
        position = text.find(f" {word}", position + 1)
    return False


def list_parts(word: str) -> list[str]:
    """Return the parts of an identifier. Single digits carry no meaning (v2.3.1) and are left out."""
    pieces = [piece for piece in _CUT_AT.split(word) if piece]
    parts: list[str] = []
    for piece in pieces:
        if len(pieces) > 1:
            parts.append(piece)
        if len(pieces) == 1 or is_camel(piece):
            # A single letter split off by case is noise (iPhone, mRNA). A single letter split off by a sign is a name
            # (x_y).
            parts += [part for part in CAMEL_PART.findall(piece) if len(part) > 1]
    digit_parts = split_digits(word)
    if digit_parts:
        return digit_parts
    parts = [part for part in dict.fromkeys(parts) if not (len(part) == 1 and part.isdigit())]
    return parts + [digits for part in parts for digits in split_digits(part)]


def split_digits(word: str) -> list[str]:
    """Return the word and the number of a form such as 10mg, ISO9001 or python3; an empty list for other words."""
    match = _NUMBER_WORD.fullmatch(word)
    if match:
        number, unit = match.groups()
        if unit.lower() in _ORDINALS:
            return []
        return [number] if unit == "s" else [number, unit]  # 1970s
    match = _WORD_NUMBER.fullmatch(word)
    if not match:
        return []
    return [match[1]] if len(match[2]) == 1 else [match[1], match[2]]

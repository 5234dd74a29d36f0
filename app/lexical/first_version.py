"""First version of the analyzer, for search indexes that it built. They keep it until they are reindexed."""

import re
import unicodedata

from app.lexical.analyzer import MAX_TERM_LENGTH, Analyzer
from app.lexical.word_patterns import (
    APOSTROPHES,
    BIGRAM_RUN,
    CAMEL_PART,
    COMMA_THOUSANDS,
    INITIALS,
    LETTER,
    NUMBER,
    VERSION,
    is_camel,
    split_bigrams,
)
from app.text_normalization import fold_text

_BOUND = r"(?:(?:[-.{a}]|(?<=\d),(?=\d)){w}+)*(?:\+\+(?!\w)|\#(?!\w))?"
_ASCII_WORD = re.compile(r"\w+" + _BOUND.format(a=APOSTROPHES, w=r"\w"))
_WORD = re.compile(LETTER + "+" + _BOUND.format(a=APOSTROPHES, w=LETTER))
_APOSTROPHE = re.compile(f"[{APOSTROPHES}]")
_CUT_AT = re.compile(rf"[-.,_{APOSTROPHES}+#]+")
_PLAIN = re.compile(rf"[^-.,_{APOSTROPHES}+#]+")
_CONTRACTION = re.compile(rf"[{APOSTROPHES}](?:s|d|m|t|ll|re|ve)$", re.IGNORECASE)
_NEGATION = re.compile(rf"n[{APOSTROPHES}]t$", re.IGNORECASE)


class FirstAnalyzer(Analyzer):
    """Analyzer with the rules of version 1. It has no terms for stop words."""

    version = 1

    def tokenize(self, text: str) -> list[str]:
        """Split a text into the terms of version 1, in the order of the text, with repeats."""
        clean = fold_text(text)
        if clean.isascii():
            return self._analyze_words(_ASCII_WORD.findall(clean))
        runs = BIGRAM_RUN.split(clean.replace("\u2010", "-"))
        terms: list[str] = []
        for index, run in enumerate(runs):
            terms += split_bigrams(run) if index % 2 else self._analyze_words(_WORD.findall(run))
        return terms

    def tokenize_document(self, text: str) -> list[str]:
        """Return the terms of ``tokenize``."""
        return self.tokenize(text)

    def tokenize_stop_words(self, query: str) -> list[str]:
        """Return no terms: indexes of version 1 have no stop words."""
        del query
        return []

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
            return [word.replace(",", "") if COMMA_THOUSANDS.fullmatch(word) else word]
        if _PLAIN.fullmatch(word) and not is_camel(word):
            return self._stem(word)
        return self._split_identifier(word)

    def _split_identifier(self, word: str) -> list[str]:
        """Return the whole identifier and then its parts. At an apostrophe, only the parts count (l'homme, O'Brien)."""
        divided = _APOSTROPHE.split(word)
        if len(divided) > 1:
            return [term for piece in divided if piece for term in self._compute_terms(piece)]
        # Writers disagree on hyphens, so "follow-up" also yields followup, and "AB-1234" also yields AB1234.
        joined = self._casefold(word).replace("-", "")
        if joined.isalpha():
            full_forms = self._stem(joined)
        else:
            full_forms = [self._casefold(word)]
            if joined != full_forms[0] and not joined.isdigit():
                full_forms.append(joined)
        version = VERSION.fullmatch(word)
        if version:
            full_forms.append(version[1])
        return full_forms + [term for part in _split_parts(word) for term in self._stem(part) if term not in full_forms]

    def _stem(self, word: str) -> list[str]:
        folded = self._casefold(word)
        if folded in self.stop_words:
            return []
        with self._stemmer_lock:
            return [self._stemmer.stemWord(folded[:MAX_TERM_LENGTH])]

    def _casefold(self, word: str) -> str:
        folded = word.casefold()
        return folded if folded.isascii() else unicodedata.normalize("NFKC", folded)


def _split_parts(word: str) -> list[str]:
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
    return [part for part in dict.fromkeys(parts) if not (len(part) == 1 and part.isdigit())]

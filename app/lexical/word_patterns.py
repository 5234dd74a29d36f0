"""Patterns of words, identifiers and numbers that all versions of the analyzer use."""

import re

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
BIGRAM_RUN = re.compile(f"([{_BIGRAM_SCRIPTS}]+)")
LETTER = rf"[\w{_MARKS}]"
APOSTROPHES = "'\u2019\u02bc"

CAMEL = re.compile(r"[a-z\d][A-Z]|[A-Z]{2}[a-z]")
CAMEL_PART = re.compile(r"[A-Z]{2,}s?(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z\d]+|[A-Z\d]+|[^A-Za-z\d]+")
INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
COMMA_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
VERSION = re.compile(r"[vV](\d+(?:\.\d+)+)")
_PLURAL_ACRONYM = re.compile(r"[A-Z\d]{2,}s")


def is_camel(word: str) -> bool:
    """Return whether capitals inside a word divide it into parts: getUser, HTTPServer, but not PDFs."""
    return bool(CAMEL.search(word)) and not _PLURAL_ACRONYM.fullmatch(word)


def split_bigrams(run: str) -> list[str]:
    """Return the pairs of adjacent characters of a run, or the only character."""
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]

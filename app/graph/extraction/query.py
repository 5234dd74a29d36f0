"""Names of entities in a question."""

import re
from collections.abc import Collection

from app.graph.extraction.names import split_words

MAX_QUERY_NAMES = 1000
"""Maximum number of candidates of one question."""

MAX_QUERY_WORDS = 200
"""Number of words of a question that are read."""

MAX_NAME_WORDS = 10
"""Maximum number of words of a name in a question."""

MAX_NAME_LETTERS = 12
"""Maximum number of letters of a name in a script that does not divide words by spaces."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]{2,}"
)


def query_names(question: str, limit: int = MAX_QUERY_NAMES) -> list[str]:
    """Return all normalized names that a question may contain, longest first.

    They are its word sequences of up to ten words. In scripts without spaces, and in Korean, they are also the
    sequences of 2 to 12 letters inside of a word.

    Args:
        question: Question of a caller.
        limit: Maximum number of names. The shortest names at the end of the question are left out first.
    """
    return list(dict.fromkeys(name for name, _, _ in _list_candidates(question)))[: max(0, limit)]


def select_query_names(question: str, existing: Collection[str]) -> list[str]:
    """Return the names of a question that exist. Longer names win over names that overlap with them.

    If the question writes names with capitals, a single word in small letters is no name, unless it has a digit or an
    underscore.

    Args:
        question: Question of a caller.
        existing: Normalized names of entities, such as those of ``query_names`` that were found.

    Returns:
        The names, without repetition, longest first.
    """
    names = existing if isinstance(existing, (set, frozenset, dict)) else frozenset(existing)
    small_words = _find_small_words(question)
    used: set[int] = set()
    selected: dict[str, None] = {}
    for name, start, end in _list_candidates(question):
        if name in names and name not in small_words and used.isdisjoint(range(start, end)):
            used.update(range(start, end))
            selected[name] = None
    return list(selected)


def _find_small_words(question: str) -> frozenset[str]:
    """Return the normalized words that a question writes in small letters alone, if it has capitals elsewhere."""
    words = question[: 20 * MAX_QUERY_WORDS].split()
    if not any(any(map(str.isupper, word)) for word in words[1:]):
        return frozenset()
    texts = {is_small: " ".join(word for word in words if word.islower() is is_small) for is_small in (True, False)}
    return frozenset(word for word in split_words(texts[True]) if word.isalpha()) - frozenset(split_words(texts[False]))


def _list_candidates(question: str) -> list[tuple[str, int, int]]:
    """Return the candidates with the ranges of their letters in the normalized question, longest first."""
    words = split_words(question[: 20 * MAX_QUERY_WORDS])[:MAX_QUERY_WORDS]
    starts, position = [], 0
    for word in words:
        starts.append(position)
        position += len(word) + 1
    spans: list[tuple[str, int, int]] = []
    for length in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        for first in range(len(words) - length + 1):
            name = " ".join(words[first : first + length])
            spans.append((name, starts[first], starts[first] + len(name)))
    for word, start in zip(words, starts, strict=True):
        spans.extend(_list_parts(word, start))
    spans.sort(key=lambda span: (span[1] - span[2], span[1]))
    return spans


def _list_parts(word: str, start: int) -> list[tuple[str, int, int]]:
    parts = []
    for run in _UNSPACED.finditer(word):
        for length in range(min(MAX_NAME_LETTERS, len(run[0])), 1, -1):
            for first in range(len(run[0]) - length + 1):
                part = run[0][first : first + length]
                if part != word:
                    parts.append((part, start + run.start() + first, start + run.start() + first + length))
    return parts

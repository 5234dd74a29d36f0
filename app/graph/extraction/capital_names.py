"""Runs of capitalized words: candidates of names in scripts with capitals (Latin, Greek, Cyrillic, Armenian)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from app.graph.extraction.letters import CASED_WORD as _W
from app.graph.extraction.letters import UNCASED, list_capital_ranges
from app.graph.extraction.word_lists import (
    ABBREVIATIONS,
    CONNECTORS,
    ELIDING,
    GERMAN,
    GERMAN_CONNECTORS,
    GERMAN_PLACE_CONNECTORS,
)

MIN_WRAPPED_CHARACTERS = 40
"""Length from which a line counts as a line of flowing text, whose break can be inside of a name."""

LINE_WINDOW = 80
"""Number of characters before and after a run that show whether its line is written in capitals."""

_GAP = r"[ \t\u00a0]{1,3}"
_ELISION = r"(?:d|l|dell)['’]"
_NUMBER = r"[0-9]{1,4}(?:[.\-/][0-9]{1,4})*+(?![\w%])"
# Characters between the end of a sentence and its first word.
_OPENING = " \t\u00a0\"'“”„‟‘’‚«»‹›([{*_#>~`¿¡•·-–—+"
_APOSTROPHES = frozenset("'’")
_UNCASED = re.compile(f"[{UNCASED}]")
_QUOTES = frozenset('"“„«‹‘‚')
_SENTENCE_ENDS = frozenset(".!?:;…|。！？؟۔।")
_LOWER_START = re.compile(rf"(?:(?<![{_W}])(?:al|el|an|ar|as|at|az|ad|ash|\d{{1,3}})-|(?<![{_W}])(?:d|l|dell)['’])\Z")


@dataclass(frozen=True, slots=True)
class CapitalRun:
    """A run of capitalized words with the connectors between them.

    Attributes:
        written: Words, connectors and numbers of the run, as they are written, with single spaces.
        start: Offset of the first character.
        end: Offset behind the last character.
        begins_sentence: Whether the run begins a sentence, a line, a quotation or a cell, so that its first capital is
            no evidence.
    """

    written: str
    start: int
    end: int
    begins_sentence: bool


def find_capital_runs(text: str, language: str | None) -> Iterator[CapitalRun]:
    """Yield the runs of capitalized words of a text, in linear time.

    A run is joined by spaces, connectors of names, initials, some abbreviations with a full stop, and numbers. A line
    break ends a run, unless its line is long. Runs in a line that is written in capitals are left out.

    Args:
        text: Text of a chunk.
        language: Language of the text, by the name of its analyzer.
    """
    pending: tuple[int, int] | None = None
    for match in _compile_run(language == GERMAN).finditer(text):
        start, end = _include_prefix(text, match.start(), language), match.end()
        if start < 0:  # the capital is inside of an identifier, which may be the first word of a run
            start = text.find(" ", match.start(), end) + 1
            if start == 0:
                continue
        if pending is not None:
            if _is_wrapped(text, pending[1], start):
                pending = (pending[0], end)
                continue
            if (run := _create_run(text, *pending)) is not None:
                yield run
        pending = (start, end)
    if pending is not None and (run := _create_run(text, *pending)) is not None:
        yield run


def starts_sentence(text: str, start: int) -> bool:
    """Return whether a word begins a sentence, a line, a quotation or a cell of a table.

    Args:
        text: The text.
        start: Offset of the word.
    """
    before = text[max(0, start - 6) : start]
    stripped = before.rstrip(_OPENING)
    if stripped.endswith("\n"):
        position = start - len(before) + len(stripped) - 1
        return not (_is_long_line(text, position) and text[position - 1] not in _SENTENCE_ENDS)
    if not stripped:
        return start <= 6
    return stripped[-1] in _SENTENCE_ENDS or before[-1:] in _QUOTES


@lru_cache(maxsize=2)
def _compile_run(is_german: bool) -> re.Pattern[str]:
    """Return the pattern of a run. All repetitions are possessive, so a long run takes linear time."""
    capital = list_capital_ranges()
    connectors = f"{GERMAN_CONNECTORS}|{GERMAN_PLACE_CONNECTORS}" if is_german else CONNECTORS
    initials = rf"[{capital}](?:\.[{capital}])*+\.(?={_GAP}[{capital}]|[{capital}])"
    abbreviation = rf"(?:{ABBREVIATIONS})\.(?={_GAP}[{capital}])"
    word = rf"[{capital}][{_W}]*+(?!:[\\/])(?:['’\-‐‑–·.&/+][{_W}]++)*+(?:\+\+|\#(?!\w)|['’](?={_GAP}[{capital}]))?"
    prefix = rf"(?:{_ELISION}|(?:al|el|an|ar|as|at|ash)-|[a-z]{{1,2}}(?=[{capital}][{_W}]))?"
    token = rf"(?>{initials}|{abbreviation}|{prefix}{word})"
    # The pattern begins with a character class, because the search then skips other characters fast.
    remainder = word.removeprefix(f"[{capital}]")
    initials_rest = initials.removeprefix(f"[{capital}]")
    abbreviation_rest = rf"(?<=(?=(?:{ABBREVIATIONS})\.).)[a-z]{{1,4}}\.(?={_GAP}[{capital}])"
    first = rf"[{capital}](?>{initials_rest}|{abbreviation_rest}|{remainder})"
    joint = rf"(?>(?:{_GAP}(?:(?:{connectors})(?=[ \t\u00a0])|&)){{0,3}}+{_GAP}|(?<=\.)){token}"
    return re.compile(rf"{first}(?>{joint}|{_GAP}{_NUMBER})*+", re.DOTALL)


def _include_prefix(text: str, start: int, language: str | None) -> int:
    """Return the start of a run with lower-case letters before its first capital, as in "iPhone" and "al-Qaida".

    Args:
        text: The text.
        start: Offset of the first capital.
        language: Language of the text. In languages that elide articles, "l'" is no part of a name.

    Returns:
        The offset; -1 if the capital is inside of an identifier.
    """
    if start == 0:
        return 0
    previous = text[start - 1]
    if previous in _APOSTROPHES and language in ELIDING:
        return start
    if previous in "-'’" and (prefix := _LOWER_START.search(text, max(0, start - 6), start)):
        return prefix.start()
    if previous in "_/\\@" or (previous == "." and start > 1 and text[start - 2].isalnum()):
        return -1
    if not previous.isalnum() or _UNCASED.match(previous):
        return start
    first = start
    while first > 0 and start - first < 3 and "a" <= text[first - 1] <= "z":
        first -= 1
    is_word = (
        start - first < 3
        and first < start
        and (first == 0 or not (text[first - 1].isalnum() or text[first - 1] in "_-./@"))
    )
    return first if is_word else -1


def _is_wrapped(text: str, end: int, start: int) -> bool:
    """Return whether only a break of a long line, and connectors, are between two runs."""
    if start - end > 16:
        return False
    gap = text[end:start]
    return (
        gap.count("\n") == 1
        and all(word in _CONNECTOR_WORDS for word in gap.split())
        and _is_long_line(text, end + gap.index("\n"))
    )


_CONNECTOR_WORDS = frozenset(re.sub(r"[^\w|]", "", CONNECTORS).split("|"))


def _is_long_line(text: str, position: int) -> bool:
    """Return whether the line that ends at a position has at least ``MIN_WRAPPED_CHARACTERS``."""
    first = position - MIN_WRAPPED_CHARACTERS
    return first >= 0 and text.find("\n", first, position) == -1


def _create_run(text: str, start: int, end: int) -> CapitalRun | None:
    written = text[start:end]
    if written.isupper() and len(written) > 1 and _is_capital_line(text, start, end):
        return None
    return CapitalRun(" ".join(written.split()), start, end, starts_sentence(text, start))


def _is_capital_line(text: str, start: int, end: int) -> bool:
    """Return whether the line around a run has further words and no lower-case letter."""
    before = text[max(0, start - LINE_WINDOW) : start].rpartition("\n")[2]
    after = text[end : end + LINE_WINDOW].partition("\n")[0]
    around = before + after
    if any(map(str.islower, around)):
        return False
    return any(map(str.isupper, around)) or len(text[start:end].split()) > 1

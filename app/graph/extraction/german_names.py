"""Names in German texts, where every noun has a capital."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from app.graph.extraction.capital_names import CapitalRun
from app.graph.extraction.names import normalize_name
from app.graph.extraction.run_names import NameEvidence, list_run_names
from app.graph.extraction.word_lists import (
    COORDINATORS,
    FORMS_OF_ADDRESS,
    GERMAN_ARTICLES,
    GERMAN_CONNECTORS,
    GERMAN_NOUNS,
    GERMAN_QUANTITIES,
)

_PREPOSITIONS = frozenset({"in", "aus", "nach", "bei"})
_WORD_BEFORE = re.compile(r"(\w+)[ \u00a0]\Z")
_PLACE_SUFFIX = re.compile(r"(?:ien|hausen|ingen|stadt|burg|dorf|heim|berg|land|furt|brück|stein|a|o|y|ow|itz)\Z")
_NOUN_SUFFIX = re.compile(
    r"(?:ung|heit|keit|schaft|tion|sion|tät|nis|ling|tum|ismus|ment|ieb|ität|enz|anz|ik|ur|en|ern|eln|chen|lein|e)\Z"
)
_CONNECTORS = frozenset(GERMAN_CONNECTORS.split("|"))


def list_german_names(run: CapitalRun, text: str, language: str | None) -> Sequence[NameEvidence]:
    """Return the names in a run of capitalized words of a German text.

    Two or more capitalized words in a row are a name, unless they are a quantity, such as "eine Tasse Kaffee". A single
    word is a name only if its form or its place shows it. The forms are acronyms, hyphenated names and capitals inside.
    The places are behind "Herr" and the like, and behind "in", "aus", "nach" and "bei" without an article. Words that
    look like ordinary nouns are no names behind these prepositions.

    Args:
        run: The run.
        text: Text in which the run is.
        language: Language of the text, by the name of its analyzer.
    """
    names = list_run_names(run, text, language)
    if not names:
        return []
    words = run.written.split()
    before = _find_word_before(text, run)
    if len(words) > 1 and words[0].casefold() in _PREPOSITIONS:  # at the beginning of a sentence
        before, words = words[0].casefold(), words[1:]
    if before.isdigit() or (before in GERMAN_QUANTITIES and sum(word[:1].isupper() for word in words) == 2):
        return [evidence for evidence in names if _is_word_name(evidence.name)]
    is_place = len(words) == 1 and before in _PREPOSITIONS and _is_likely_place(words[0].casefold())
    return [each for evidence in names for each in _check_name(evidence, words, before, is_place)]


def _check_name(evidence: NameEvidence, words: Sequence[str], before: str, is_place: bool) -> Iterator[NameEvidence]:
    """Yield a name with the certainty of German texts; instead of a noun with "von", the name behind it."""
    name = evidence.name.split()
    if len(name) == 1:
        yield replace(evidence, is_certain=is_place or _is_certain(evidence.name, words))
    elif any(word in COORDINATORS for word in name):
        if "&" in name or _has_two_names(name):
            yield evidence
    elif name[0].islower():
        return
    elif (place := next((place for place, word in enumerate(name) if word in _CONNECTORS), 0)) == 0 or (
        before not in GERMAN_ARTICLES and not (place == 1 and name[1] != "van" and _is_noun(name[0]))
    ):
        yield evidence
    elif len(remainder := name[place + 1 :]) > 1 and remainder[0][0].isupper():
        written = " ".join(remainder)
        yield NameEvidence(written, normalize_name(written), True)


def _is_noun(word: str) -> bool:
    """Return whether a word before "von" looks like an ordinary noun."""
    folded = word.casefold()
    return folded in GERMAN_NOUNS or (not folded.endswith("e") and _NOUN_SUFFIX.search(folded) is not None)


def _is_certain(name: str, words: Sequence[str]) -> bool:
    """Return whether the form of a single word, or a form of address, shows that it is a name."""
    return _is_word_name(name) or _has_address(words, name)


def _find_word_before(text: str, run: CapitalRun) -> str:
    """Return the casefolded word before a run."""
    match = _WORD_BEFORE.search(text, max(0, run.start - 16), run.start)
    return match[1].casefold() if match else ""


def _has_two_names(words: Sequence[str]) -> bool:
    """Return whether both sides of the coordinator have two words, as no pair of ordinary nouns has."""
    position = next(place for place, word in enumerate(words) if word in COORDINATORS)
    return min(position, len(words) - position - 1) >= 2


def _is_word_name(name: str) -> bool:
    """Return whether the form of a single word shows that it is a name: BMW, YouTube, Max-Planck-Institut."""
    if " " in name:
        return False
    letters = [letter for letter in name if letter.isalpha()]
    parts = name.split("-")
    capitals = sum(part[:1].isupper() for part in parts)
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return True
    if len(parts) > 1:
        return capitals >= 3 or (len(parts[0]) > 1 and parts[0].isupper())
    return any(map(str.isupper, name[1:])) or any(map(str.isdigit, name))


def _has_address(words: Sequence[str], name: str) -> bool:
    return any(
        previous.casefold().rstrip(".") in FORMS_OF_ADDRESS and word.startswith(name)
        for previous, word in pairwise(words)
    )


def _is_likely_place(word: str) -> bool:
    """Return whether a casefolded word behind a preposition without an article does not look like a noun."""
    if word in GERMAN_NOUNS or len(word) < 3:
        return False
    return _PLACE_SUFFIX.search(word) is not None or _NOUN_SUFFIX.search(word) is None

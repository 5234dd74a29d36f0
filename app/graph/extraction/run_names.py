"""Names in one run of capitalized words: the whole run, and parts of it that are names too."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from app.graph.extraction.capital_names import CapitalRun
from app.graph.extraction.names import normalize_name
from app.graph.extraction.word_lists import (
    ACRONYMS,
    CONNECTORS,
    COORDINATORS,
    DATE_WORDS,
    ELIDING,
    FORMS_OF_ADDRESS,
    GERMAN,
    MONTHS,
    NAME_PARTICLES,
    NAME_SUFFIXES,
    PARTICLES,
    PREPOSITIONS,
    REFERENCES,
    SAFE_PARTICLES,
    TURKISH,
    get_function_words,
)

MAX_NAME_WORDS = 10
"""Maximum number of words of a name in a text. Longer runs are headlines, lists or shouts."""

MAX_RUN_CHARACTERS = 400
"""Maximum length of a run. Longer runs are lists or shouts."""

MAX_CACHED_RUNS = 16_384
"""Number of runs whose names are cached in a process."""

MAX_CAPITAL_WORDS = 4
"""Maximum number of words of a name that is written in capitals."""

_ELIDED = re.compile(r"(?:[LDJNSMTC]|Qu|Dell|All|Nell|Sull|Dall|Un)['’](?=\w{2})")
_LOWER_ELIDED = re.compile(r"(?:l|dell|nell|sull|all|dall|d)['’](?=\w{2})")
# A capital behind a small letter, and an acronym. Such a word is a name at any place.
_INNER_CAPITAL = re.compile(r"[^\W\d_A-Z]['’]?[A-Z]|\A[A-Z]{2,}s?\Z|\d")
# Signs of a date or of the end of a sentence inside of a run.
_SPLIT_SIGN = re.compile(rf"[.\d]|\b(?:{'|'.join(sorted(MONTHS))})\b", re.IGNORECASE)
_ROMAN = re.compile(r"(?:[IVX]+|(?=[IVXLCDM]{4})M{0,4}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))\Z")
_NUMBER = re.compile(r"[\d.\-/]+\Z")
_TURKISH_SUFFIX = re.compile(r"(?<=\w\w)['’][a-zçğıöşü]+\Z")
_POSSESSIVE = re.compile(r"['’]s?\Z")
_PARTICLE_BEFORE = re.compile(rf"(?<!\S)({PARTICLES})[ \u00a0]\Z")
_NO_NAMES = DATE_WORDS | NAME_SUFFIXES
_DIVIDERS = COORDINATORS | PREPOSITIONS
_CONNECTOR_WORDS = frozenset(re.sub(r"[^\w|]", "", CONNECTORS).split("|")) | {"&"}


@dataclass(frozen=True, slots=True)
class NameEvidence:
    """A possible name.

    Attributes:
        name: The name, as it is written.
        key_text: The normalized name.
        is_certain: Whether the place proves that the word is a name. A single word that begins a sentence is no proof.
    """

    name: str
    key_text: str
    is_certain: bool


def list_run_names(run: CapitalRun, text: str, language: str | None) -> Sequence[NameEvidence]:
    """Return the names in a run of capitalized words.

    Function words at the beginning of a sentence are cut off. Names around "and", forms of address and numbers count
    with and without them. Dates, references to parts of the document, and sentences in capitals are no names.

    Args:
        run: The run.
        text: Text in which the run is.
        language: Language of the text, by the name of its analyzer.
    """
    if len(run.written) > MAX_RUN_CHARACTERS:
        return ()
    names = read_run(run.written, run.begins_sentence, language)
    particle = None if run.begins_sentence or not names else _find_particle(text, run, language)
    if particle is None:
        return names
    written = [f"{particle} {each.name}" for each in names if run.written.startswith(each.name)]
    return [*(NameEvidence(name, normalize_name(name), True) for name in written), *names]


@lru_cache(maxsize=MAX_CACHED_RUNS)
def read_run(written: str, begins: bool, language: str | None) -> tuple[NameEvidence, ...]:
    """Return the names in a run, regardless of the text around it. Documents repeat names, so results are cached.

    Args:
        written: The run, with single spaces.
        begins: Whether the run begins a sentence.
        language: Language of the text, by the name of its analyzer.
    """
    function_words = get_function_words(language)
    words, begins = _strip_function_words(written.split(), begins, function_words)
    if language in ELIDING and words and _ELIDED.match(words[0]):
        words, begins = [_ELIDED.sub("", words[0], 1), *words[1:]], False
    if language == TURKISH:
        words = [_TURKISH_SUFFIX.sub("", word) for word in words]
    if not words or _is_shouted(words, function_words):
        return ()
    segments = _split_sentences(words, begins, function_words) if _SPLIT_SIGN.search(written) else [(words, begins)]
    return tuple(
        NameEvidence(name, normalize_name(name), is_certain)
        for segment, segment_begins in segments
        if len(segment) <= MAX_NAME_WORDS
        for name, is_certain in _list_parts(segment, segment_begins)
        if is_name(name.split(), function_words)
    )


def is_name(words: Sequence[str], function_words: frozenset[str]) -> bool:
    """Return whether words can be a name: they are no date, number, reference, numeral, letter or function word.

    Args:
        words: Words of the possible name.
        function_words: Casefolded function words of the language.
    """
    folded = [_fold(word) for word in words]
    if all(word in _NO_NAMES or not word or _NUMBER.match(word) for word in folded):
        return False
    if len(words) == 1:
        bare = words[0].rstrip(".")
        if len(bare) < 2 or _ROMAN.match(bare):
            return False
        if folded[0] in FORMS_OF_ADDRESS:
            return False
        return folded[0] not in function_words or bare in ACRONYMS
    if folded[0] in REFERENCES and (_NUMBER.match(folded[1]) or _ROMAN.match(words[1]) or len(words[1]) == 1):
        return False
    return not all(word in function_words or _NUMBER.match(word) for word in folded)


def _strip_function_words(words: list[str], begins: bool, function_words: frozenset[str]) -> tuple[list[str], bool]:
    """Return the words of a run without function words at the beginning of a sentence, and without a final pronoun."""
    if begins:
        first = 0
        while first < len(words) and (
            _fold(words[first]) in function_words or (first and words[first].lower() in _CONNECTOR_WORDS)
        ):
            first += 1
        if first:
            words, begins = words[first:], False
    while words and (words[-1].lower() in _CONNECTOR_WORDS and words[-1].islower()):
        words.pop()
    if len(words) > 1 and _is_pronoun(words, begins):
        words.pop()
        while words and words[-1].lower() in COORDINATORS:
            words.pop()
    return words, begins


def _split_sentences(
    words: Sequence[str], begins: bool, function_words: frozenset[str]
) -> Iterator[tuple[list[str], bool]]:
    """Yield the parts of a run between dates, after numbers that a connector follows, and after ends of sentences.

    A full stop behind a single letter ends a sentence if the letter is a numeral behind a name, or a function word
    follows: "World War I. The war".
    """
    segment: list[str] = []
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        if _is_date(word, segment, following):
            yield from _end_segment(segment, begins)
            segment, begins = [], False
            continue
        segment.append(word)
        if _ends_sentence(word, following, len(segment), function_words):
            segment[-1] = word.rstrip(".")
            yield from _end_segment(segment, begins)
            segment, begins = [], True
        elif _NUMBER.match(word) and following.lower() in _CONNECTOR_WORDS:
            yield from _end_segment(segment, begins)
            segment, begins = [], False
    yield from _end_segment(segment, begins)


def _is_date(word: str, segment: Sequence[str], following: str) -> bool:
    """Return whether a word is a month of a date, or the number before a month.

    Months are names of people too: "Theresa May", "Jan de Vries".
    """
    if not segment and _NUMBER.match(word):
        return True
    if _fold(word) not in MONTHS:
        return False
    if _NUMBER.match(following) or (segment and (segment[-1] in PREPOSITIONS or _NUMBER.match(segment[-1]))):
        return True
    return not segment and (following == "" or following in _DIVIDERS)


def _ends_sentence(word: str, following: str, length: int, function_words: frozenset[str]) -> bool:
    if len(word) != 2 or word[1] != "." or length < 2 or not following:
        return False
    return word[0] in "IVX" or _fold(following) in function_words


def _end_segment(segment: list[str], begins: bool) -> Iterator[tuple[list[str], bool]]:
    """Yield a part of a run without connectors at its ends, if anything is left."""
    first, last = 0, len(segment)
    while first < last and segment[first].islower() and segment[first] in _CONNECTOR_WORDS:
        first += 1
    while last > first and segment[last - 1].lower() in _CONNECTOR_WORDS | {"a"} and _is_droppable(segment[last - 1]):
        last -= 1
    if first < last:
        yield segment[first:last], begins and first == 0


def _is_droppable(word: str) -> bool:
    return word.islower() or word in {"The", "A", "An", "&"}


def _is_pronoun(words: Sequence[str], begins: bool) -> bool:
    """Return whether the last word is the English pronoun I, and no numeral."""
    last = words[-1].partition("’")[0].partition("'")[0]
    return last == "I" and (last != words[-1] or words[-2].lower() in COORDINATORS or (begins and len(words) == 2))


def _is_shouted(words: Sequence[str], function_words: frozenset[str]) -> bool:
    if not all(word.isupper() or _NUMBER.match(word) or word == "&" for word in words):
        return False
    return len(words) > MAX_CAPITAL_WORDS or (
        len(words) > 1 and any(len(word) > 1 and _fold(word) in function_words for word in words)
    )


def _find_particle(text: str, run: CapitalRun, language: str | None) -> str | None:
    match = _PARTICLE_BEFORE.search(text, max(0, run.start - 8), run.start)
    if match is None or language == GERMAN or run.written.startswith("The "):
        return None
    particle = match[1]
    return particle if particle in SAFE_PARTICLES or language in {None, "english"} else None


def _list_parts(words: list[str], begins: bool) -> Iterator[tuple[str, bool]]:
    """Yield the whole name and its parts, each with whether it is certain.

    The parts are those around coordinators and prepositions, without form of address, and without final number.
    """
    places = [place for place, word in enumerate(words) if word in _DIVIDERS and 0 < place < len(words) - 1]
    parts: list[list[str]] = []
    for first, end in pairwise((-1, *places, len(words))):
        parts.append(words[first + 1 : end])
    if len(parts) == 1 or (len(parts) == 2 and parts[0] != parts[1]):
        yield from _list_forms(words, begins)
    if len(parts) > 1:
        for number, part in enumerate(parts):
            if number and part and (elided := _LOWER_ELIDED.match(part[0])):
                part = [part[0][elided.end() :], *part[1:]]
            yield from _list_forms(part, begins and number == 0)


def _list_forms(words: list[str], begins: bool) -> Iterator[tuple[str, bool]]:
    first = 0
    while first < len(words) and words[first].islower() and words[first] in _CONNECTOR_WORDS:
        first += 1
    if 0 < first < len(words) and " ".join(words[:first]) in NAME_PARTICLES:
        yield _write(words), True
    words, begins = words[first:], begins and first == 0
    if not words:
        return
    yield _write(words), len(words) > 1 or not begins or _INNER_CAPITAL.search(words[0]) is not None
    if len(words) == 1:
        return
    if _fold(words[0]) in FORMS_OF_ADDRESS:
        yield from _list_forms(words[1:], False)
    elif _NUMBER.match(words[-1]) and not _NUMBER.match(words[0]) and _fold(words[0]) not in REFERENCES:
        yield _write(words[:-1]), len(words) > 2 or not begins


def _write(words: Sequence[str]) -> str:
    return _POSSESSIVE.sub("", " ".join(words))


def _fold(word: str) -> str:
    """Return a word as the lists of words have it."""
    folded = word.casefold().replace("’", "'").rstrip(".")
    if folded.endswith("n't"):
        return folded[:-3]
    return folded.partition("'")[0] if folded.endswith(("'s", "'m", "'ve", "'ll", "'d", "'re")) else folded

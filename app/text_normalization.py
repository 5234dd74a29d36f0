"""Normalization of characters in stored texts and in queries."""

import re
import unicodedata

_LINE_BREAKS = re.compile(r"\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    r"\ufff9-\ufffb\ufffe\uffff]"
)
# Joiners carry meaning in Arabic, Indic scripts and emoji. Next to a Latin letter they only split a word in the index.
# Possessive matches start at the first joiner of a run: otherwise the time would be quadratic in the length of the run.
_LATIN_JOINERS = re.compile(
    "(?<=[\\x00-\\u024f])[\\u200c\\u200d]++|(?<![\\u200c\\u200d])[\\u200c\\u200d]++(?=[\\x00-\\u024f])"
)
_SURROGATES = re.compile("[\\ud800-\\udfff]")

# A run that may contain more than 30 non-starters: combining marks, without the blocks that have none. The letter
# before it contributes up to three.
_MARK_RUN = re.compile(
    "[^\\w\\s\\x00-\\u02ff\\u2010-\\u20cf\\u2100-\\u2bff\\u2e80-\\u3029\\u3030-\\u3098\\ufe30-\\uffff"
    "\\U0001f000-\\U0001faff]{28,}"
)
_MAX_MARKS = 30
_GRAPHEME_JOINER = "\u034f"


def normalize_text(text: str) -> str:
    """Return a text in NFKC without control, zero-width and direction characters.

    ``\\n`` is the only line break, and U+FFFD replaces lone surrogates. Spaces and tabs do not change. U+034F divides
    runs of more than 30 combining marks. The time is linear in the length of the text.

    Args:
        text: Any text.
    """
    # A fast test first: the patterns match only characters that are not printable, and take far longer.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text if text.isascii() else _normalize_nfkc(text)
    if text.isascii():
        return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    text = _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    if "\u200c" in text or "\u200d" in text:
        text = _LATIN_JOINERS.sub("", text)
    return _normalize_nfkc(_SURROGATES.sub("\ufffd", text))


def has_long_mark_run(text: str) -> bool:
    """Return whether a text has more than 30 combining marks in a row, for which other algorithms may take quadratic
    time.
    """
    return _MARK_RUN.search(text) is not None


def _normalize_nfkc(text: str) -> str:
    """Normalize to NFKC through the Stream-Safe Text Format (Unicode Standard Annex 15, section 13).

    Python's ``unicodedata`` sorts a run of combining marks by insertion, so a long run would take quadratic time.
    """
    # NFKC decomposes these two letters to non-starters. Replace them first.
    text = text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a")
    return unicodedata.normalize("NFKC", _MARK_RUN.sub(_divide_marks, text))


def _divide_marks(match: re.Match[str]) -> str:
    """Insert U+034F before each character that would be the 31st non-starter in a row."""
    run, preceding = match[0], match.string[max(0, match.start() - 1) : match.start()]
    decompositions = {character: _count_non_starters(character) for character in set(run)}
    if not any(leading for leading, _, _ in decompositions.values()):
        return run
    divided: list[str] = []
    count = _count_non_starters(preceding)[1]
    for character in run:
        leading, trailing, is_all_non_starters = decompositions[character]
        if count + leading > _MAX_MARKS:
            divided.append(_GRAPHEME_JOINER)
            count = 0
        divided.append(character)
        count = count + leading if is_all_non_starters else trailing
    return "".join(divided)


def _count_non_starters(character: str) -> tuple[int, int, bool]:
    """Return the numbers of leading and trailing non-starters of the NFKD form, and whether all are non-starters."""
    starter_flags = [unicodedata.combining(each) == 0 for each in unicodedata.normalize("NFKD", character)]
    if True not in starter_flags:
        return len(starter_flags), len(starter_flags), True
    return starter_flags.index(True), starter_flags[::-1].index(True), False

"""Normalization of characters: NFC for texts that are stored and quoted, NFKC for the index and its queries."""

import re
import unicodedata

from app.separate_accents import compose_accents

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
_NOT_MARKS = (
    "\\w\\s\\x00-\\u02ff\\u2010-\\u20cf\\u2100-\\u2bff\\u2e80-\\u3029\\u3030-\\u3098\\ufe30-\\uffff"
    "\\U0001f000-\\U0001faff"
)
_MARK_RUN = re.compile(f"[^{_NOT_MARKS}]{{28,}}")
# NFKC decomposes the half-width voiced sound marks, which are letters, to non-starters.
_VOICED_MARK_RUN = re.compile(f"(?:[^{_NOT_MARKS}]|[\uff9e\uff9f]){{28,}}")
_MAX_MARKS = 30
_GRAPHEME_JOINER = "\u034f"

# Forms that differ from their letters only in print: ligatures, Arabic letters by their place in the word, full-width
# ASCII. Words that are one character (U+FDFA) and the punctuation of Chinese and Japanese are not among them.
_PRINT_FORMS = re.compile(
    "[\ufb00-\ufb06\ufb13-\ufb17\ufb20-\ufb29\ufb4f-\ufbb1\ufbd3-\ufd3d\ufd50-\ufdc7\ufe70-\ufefc"
    "\uff02-\uff07\uff0a\uff0b\uff0d-\uff19\uff1c-\uff1e\uff20-\uff5d]+"
)


def normalize_text(text: str) -> str:
    """Return a text as it is stored: in NFC, without control, zero-width and direction characters.

    The text stays as it is written: superscripts, fractions and symbols are not replaced. Ligatures and full-width
    letters become ordinary letters. An accent that is a separate character is composed with its letter.
    ``\\n`` is the only line break, and U+FFFD replaces lone surrogates. Spaces and tabs do not change. U+034F divides
    runs of more than 30 combining marks. The time is linear in the length of the text.

    Args:
        text: Any text.
    """
    text = _replace_characters(text)
    if text.isascii():
        return text
    # Stream-Safe Text Format (Unicode Standard Annex 15, section 13). Python's ``unicodedata`` sorts a run of combining
    # marks by insertion, so a long run would take quadratic time.
    mark_run = _VOICED_MARK_RUN if "\uff9e" in text or "\uff9f" in text else _MARK_RUN
    return compose_accents(unicodedata.normalize("NFC", mark_run.sub(_divide_marks, text)))


def fold_text(text: str) -> str:
    """Return a text in NFKC, for the index, its queries and comparisons. The result is never stored or quoted.

    The other characters are treated as in ``normalize_text``, in linear time. The result is equal for a text and for
    the stored form of the text.

    Args:
        text: Any text.
    """
    return fold_stored_text(normalize_text(text))


def fold_stored_text(text: str) -> str:
    """Return the folded form of a text in the form of ``normalize_text``."""
    if text.isascii():
        return text
    # NFKC decomposes these two letters to non-starters. Replace them first.
    return unicodedata.normalize("NFKC", text.replace("\uff9e", "\u3099").replace("\uff9f", "\u309a"))


def _replace_characters(text: str) -> str:
    """Remove invisible characters and replace line breaks, lone surrogates and print forms."""
    # A fast test first: the patterns match only characters that are not printable, and take far longer.
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text if text.isascii() else _PRINT_FORMS.sub(_replace_print_forms, text)
    text = _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    if text.isascii():
        return text
    text = _PRINT_FORMS.sub(_replace_print_forms, text)
    if "\u200c" in text or "\u200d" in text:
        text = _LATIN_JOINERS.sub("", text)
    return _SURROGATES.sub("\ufffd", text)


def _replace_print_forms(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", match[0])


def has_long_mark_run(text: str) -> bool:
    """Return whether a text has more than 30 combining marks in a row, for which other algorithms may take quadratic
    time.
    """
    return _MARK_RUN.search(text) is not None


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

"""Names in quotation marks."""

import re
from collections.abc import Iterator

from app.graph.extraction.letters import UNCASED
from app.graph.extraction.word_lists import get_function_words

MAX_QUOTED_CHARACTERS = 80
"""Maximum length of a quoted name."""

MAX_TITLE_WORDS = 10
"""Maximum number of words of a quoted title, most of whose words have capitals."""

MAX_PHRASE_WORDS = 4
"""Maximum number of words of another quoted name. Longer quotations are parts of sentences."""

MAX_UNCASED_CHARACTERS = 30
"""Maximum number of characters of a quoted name in a script without spaces."""

_PAIRS = ("„“”", "“”", "””", "«»", "»«", "‹›", "「」", "『』", "《》", "〈〉", "‚‘")
_QUOTED = re.compile(
    "|".join(
        [
            rf'(?<![\w"])"(?=[^\s"])([^"\n]{{1,{MAX_QUOTED_CHARACTERS}}}+)(?<=\S)"(?!\w)',
            *(
                rf"{pair[0]}([^\n{''.join(dict.fromkeys(pair))}]{{1,{MAX_QUOTED_CHARACTERS}}}+)[{pair[1:]}]"
                for pair in _PAIRS
            ),
        ]
    )
)
_QUOTATION_MARKS = re.compile('["„“”«»‹›「『《〈‚]')
_UNCASED = re.compile(f"[{UNCASED}]")
_SENTENCE_MARKS = re.compile(r"(?:(?<=\w\w\w)\.|[!?;])(?=\s|\Z)|[，、,:：…]\Z|[。！？；]")
_TITLE_END = re.compile(r"[!?]\Z")


def find_quoted_names(text: str, language: str | None) -> Iterator[tuple[str, int]]:
    """Yield the short quotations of a text that are names, with their offsets, in linear time.

    A quotation of at most ten words is a name if half of its words have capitals; function words do not count. A
    quotation of two to four words is a name if it neither begins nor ends with a function word. In scripts without
    capitals, a name has at most 30 characters and no mark of a sentence.

    Args:
        text: Text of a chunk.
        language: Language of the text, by the name of its analyzer.
    """
    if _QUOTATION_MARKS.search(text) is None:
        return
    function_words = get_function_words(language)
    for match in _QUOTED.finditer(text):
        name = (match[match.lastindex or 0] or "").strip()
        if name and _is_quoted_name(name, function_words):
            yield name, match.start()


def _is_quoted_name(name: str, function_words: frozenset[str]) -> bool:
    if _UNCASED.search(name):
        words = name.split()
        return (
            len(words) <= MAX_PHRASE_WORDS and len(name) <= MAX_UNCASED_CHARACTERS and not _SENTENCE_MARKS.search(name)
        )
    words = name.split()
    if len(words) > MAX_TITLE_WORDS or not any(map(str.isalpha, name)):
        return False
    others = [word for word in words if word.casefold() not in function_words]
    capitals = sum(word[0].isupper() or word[0].isdigit() for word in others)
    is_title = name[0].isupper() or name[0].isdigit()
    if is_title and others and 2 * capitals >= len(others) and (len(words) > 1 or not _SENTENCE_MARKS.search(name)):
        return not _SENTENCE_MARKS.search(_TITLE_END.sub("", name)) and len(words) * 2 > len(others)
    if _SENTENCE_MARKS.search(name) or not 2 <= len(words) <= MAX_PHRASE_WORDS:
        return False
    return words[0].casefold() not in function_words and words[-1].casefold() not in function_words

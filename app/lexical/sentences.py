"""Sentence boundaries, by the same rules for chunkers and for the tree."""

import re
from collections.abc import Iterator

# Abbreviations by their length, because a lookbehind has a fixed width.
_ABBREVIATIONS = (
    r"[A-Z]",
    r"Dr|Mr|Ms|St|Eq|Ch|al|cf|vs|ca|Nr|Bd|Hr|Fr",
    r"Mrs|Fig|Eqs|Sec|Vol|Ref|bzw|Abb|Mme|Sra|e\.g|i\.e|z\.B|d\.h",
    r"Prof|Figs|Refs",
)
_NOT_ABBREVIATION = "".join(rf"(?<!\b(?:{words})\.)" for words in _ABBREVIATIONS)
# A sentence ends with a punctuation mark and white space, except after an abbreviation or before a lower-case letter.
# Chinese and Japanese need no white space. All marks are at the beginning of the expression, so that the search skips
# from one mark to the next. The search tries each mark of a run in turn. One try reads at most 30 marks ahead, because
# without a limit a run would take quadratic time. One of the last marks of a longer run ends the sentence.
_SENTENCE_END = re.compile(
    r"[.!?…؟۔।॥。！？｡](?:"
    rf"(?:(?<=\.){_NOT_ABBREVIATION}|(?<=[!?…؟۔।॥]))[.!?…]{{0,30}}+[\"'”’»)\]]*+\s++(?=\S)"
    r"|(?<=[!?。！？｡])[!?。！？｡]{0,30}[」』”’)\]）]{0,30}\s*(?=[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af])"
    r"|(?<=[。｡])[」』”’)\]]*\s*)"
)


def find_sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of ``text[start:end]`` as adjacent ranges, which include the white space behind a sentence.

    Args:
        text: Text of a document.
        start: First character of the range, as an offset in code points.
        end: Offset behind the last character.
    """
    position = start
    for match in _SENTENCE_END.finditer(text, start, end):
        if match.end() < end and text[match.end()].islower():
            continue
        yield position, match.end()
        position = match.end()
    yield position, end


def strip_range(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a range of the text without white space at its ends; an empty range if it has only white space."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end

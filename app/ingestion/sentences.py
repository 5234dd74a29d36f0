"""Where sentences end: one rule set for chunkers and for the tree."""

import re
from collections.abc import Iterator

# By their length, because a lookbehind has one width.
_ABBREVIATIONS = (
    r"[A-Z]",
    r"Dr|Mr|Ms|St|Eq|Ch|al|cf|vs|ca|Nr|Bd|Hr|Fr",
    r"Mrs|Fig|Eqs|Sec|Vol|Ref|bzw|Abb|Mme|Sra|e\.g|i\.e|z\.B|d\.h",
    r"Prof|Figs|Refs",
)
_NOT_ABBREVIATION = "".join(rf"(?<!\b(?:{words})\.)" for words in _ABBREVIATIONS)
# An end of a sentence: a sign and white space, unless an abbreviation or a small letter says otherwise; Chinese and
# Japanese need no white space (their ! and ? are ASCII after NFKC). All signs stand first, so that the search skips
# from one to the next. It tries each sign of a run in turn, so one try reads at most 30 signs ahead: else a run would
# take the square of its length. A longer run ends a sentence by one of its last signs.
_SENTENCE_END = re.compile(
    r"[.!?…؟۔।॥。](?:"
    rf"(?:(?<=\.){_NOT_ABBREVIATION}|(?<=[!?…؟۔।॥]))[.!?…]{{0,30}}+[\"'”’»)\]]*+\s++(?=\S)"
    r"|(?<=[!?。])[!?。]{0,30}[」』”’)\]]{0,30}\s*(?=[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af])"
    r"|(?<=。)[」』”’)\]]*\s*)"
)


def find_sentence_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of ``text[start:end]`` as ranges that follow each other, the white space behind them included."""
    position = start
    for match in _SENTENCE_END.finditer(text, start, end):
        if match.end() < end and text[match.end()].islower():
            continue
        yield position, match.end()
        position = match.end()
    yield position, end


def strip_range(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without white space at its ends; empty where there is nothing else."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end

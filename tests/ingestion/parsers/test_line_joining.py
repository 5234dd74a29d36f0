"""Lines are joined to a paragraph, and each line's range is found in it."""

import random
import unicodedata

import pytest

from app.ingestion.parsers.formats.pdf.layout import find_hyphenated_words
from app.ingestion.parsers.formats.pdf.text_line import TextLine
from app.ingestion.parsers.toolkit.line_joining import join_lines
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.separate_accents import compose_accents

# Pieces that cleaning makes longer, shorter or empty, that compose with a neighbour, or that end in a hyphen.
ALPHABET = [
    *"abzAZ09 \t-.,", "-", "-", "\u2010", "\u2011", "\u00ad", "\u00ad", "ß", "é", "ﬁ", "½", "㎏", "…", "ﷺ", "Ａ",
    "\u3000", "\u0301", "\u0316", "\u0345", "e",
    "\u1100", "\u1161", "\u11a8", "가", "\u200b", "\u200d", "\ufeff", "\x01",
    "\x0c", "\u2028", "\u00a0", "´", "¨", "\u0308", "u", "東", "🦉", "م", "\u094d", "\U0001d400", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "joined", "lines"),
    [
        (["consec-", "tetuer"], "consectetuer", ["consec", "tetuer"]),
        (["consec\u00ad", "tetuer"], "consectetuer", ["consec", "tetuer"]),
        (["Drosseln\u00ad", "Eier "], "DrosselnEier", ["Drosseln", "Eier"]),
        (["one-", "way fee"], "one-way fee", ["one-", "way fee"]),
        (["Schwarz-", "Weiß"], "Schwarz- Weiß", ["Schwarz-", "Weiß"]),
        (["2013-", "2014"], "2013- 2014", ["2013-", "2014"]),
        (["a dash -", "and more"], "a dash - and more", ["a dash -", "and more"]),
        (["plain  words ", " and\tmore"], "plain words and more", ["plain words", "and more"]),
        (["ef-", "\x01", "ﬁcient"], "efficient", ["ef", "", "ficient"]),
        (["\u200b", "½ a", ""], "½ a", ["", "½ a", ""]),
        (["e\u00ad", "\u0301a"], "eá", ["e", "á"]),
        (["e\u00ad", "´s"], "e ´s", ["e", "´s"]),
        (["a-", "b-", "c"], "abc", ["a", "b", "c"]),
        (["-", "a"], "- a", ["-", "a"]),
        ([], "", []),
    ],
    ids=ascii,
)
def test_join_lines_returns_text_and_ranges(parts: list[str], joined: str, lines: list[str]) -> None:
    text, ranges = join_lines(parts, find_hyphenated_words([TextLine(0, 0, 9, 9, 9, "the One-way fee")]))
    assert text == joined
    assert [text[start:end] for start, end in ranges] == lines


def test_join_lines_random_lines_are_found_again() -> None:
    rng = random.Random(15)
    dropped = 0
    for _ in range(5000):
        parts = ["".join(rng.choices(ALPHABET, k=rng.randint(0, 6))) for _ in range(rng.randint(0, 6))]
        text, ranges = join_lines(parts, {"a-b"})
        lines = [(clean_line(part), *place) for part, place in zip(parts, ranges, strict=True)]
        assert [start == end for _, start, end in lines] == [not line for line, _, _ in lines], ascii(parts)
        filled = [place for place in lines if place[0]]
        for index, (line, start, end) in enumerate(filled):
            hyphen_gone = line[-1] in "-\u2010\u2011" and text[start:end] == line[:-1] and index < len(filled) - 1
            dropped += hyphen_gone
            assert text[start:end] == line or hyphen_gone, ascii(parts)
        ends = [0, *(end for _, _, end in filled)]
        starts = [*(start for _, start, _ in filled), len(text)]
        between = [text[end:start] for end, start in zip(ends, starts, strict=True)]
        assert all(ends[index] <= start for index, start in enumerate(starts)), ascii(parts)
        assert (between[0], between[-1]) == ("", ""), ascii(parts)
        assert set(between) <= {"", " "}, ascii(parts)
        assert text == " ".join(text.split())
        assert unicodedata.is_normalized("NFC", compose_accents(text)), ascii(parts)
        assert compose_accents(text) == text, ascii(parts)
    assert dropped > 50


def test_join_lines_long_words_take_linear_time() -> None:
    """Guards against quadratic time: the test would hang."""
    text, ranges = join_lines(["x" * 300_000 + "-", "y"] * 20)
    assert len(ranges) == 40
    assert len(text) == 20 * 300_001 + 19

"""Excerpt measures on ranges that are small enough to count."""

import random

import pytest

from app.cli.evaluation.datasets import DatasetError, ExcerptReference
from app.cli.evaluation.span_metrics import (
    CorpusTexts,
    ExcerptScores,
    Range,
    RetrievedChunk,
    count_overlap,
    merge_ranges,
    score_query,
)

TEXT = "The heron waits.\n\nThe otter  dives for trout.\nThe heron waits again at 4 km² of reeds."


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("The heron waits.", "The heron waits."),
        ("The otter dives\nfor trout.", "The otter  dives for trout."),
        ("Theheron waitsagain", "The heron waits again"),
        ("at 4 km2 of", "at 4 km² of"),
        ("", None),
        ("   ", None),
        ("the heron", None),
    ],
)
def test_locate_returns_span_of_passage(words: str, found: str | None) -> None:
    span = CorpusTexts({"d": TEXT}).locate("d", words)
    assert (None if span is None else TEXT[slice(*span)]) == found
    assert CorpusTexts({"d": TEXT}).locate("e", words) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Herons\n\nThey wait.", "Herons = =\n\nThey *wait"),
        ("Herons They", "Herons = =\n\nThey"),
        ("They wait. Or not.", "They *wait*. Or not"),
        ("wait | or", None),
        ("= = =", None),
    ],
)
def test_locate_passage_stored_without_markup_returns_span(words: str, found: str | None) -> None:
    text = "= = Herons = =\n\nThey *wait*. Or not."
    span = CorpusTexts({"d": text}).locate("d", words)
    assert (None if span is None else text[slice(*span)]) == found


@pytest.mark.parametrize("kept", ["**Note.** Ask first.", "Note. Ask first.", "Note.  Ask first."])
def test_locate_repeated_passage_returns_nearest(kept: str) -> None:
    parts = [kept, "The ferry leaves at noon.", kept, "The train leaves at night.", kept]
    stored = [part.replace("**", "").replace("  ", " ") for part in parts]
    text, starts = "\n".join(parts), [len("\n".join([*parts[:number], ""])) for number in (0, 2, 4)]
    for number, start in zip((0, 2, 4), starts, strict=True):
        place = len("\n".join([*stored[:number], ""]))
        span = CorpusTexts({"d": text}).locate("d", stored[number], near=place)
        assert span is not None
        assert start <= span[0] < span[1] <= start + len(kept)
    wanted = {"d": [(starts[1], starts[1] + len(kept))]}
    passage = RetrievedChunk("d", stored[2], len("\n".join([*stored[:2], ""])))
    assert score_query([passage], wanted, CorpusTexts({"d": text})).recall > 0.7
    assert CorpusTexts({"d": text}).locate("d", kept, near=10_000) == (starts[2], len(text))


@pytest.mark.parametrize("notes", [["Ask first."], ["Ask first.", "*Ask* first.", "Ask  first."]])
def test_locate_repeated_passage_returns_same_occurrence_number(notes: list[str]) -> None:
    """In a long document whose headings are not stored, the nearest place is soon a wrong one."""
    text = stored = ""
    asked: list[tuple[int, int]] = []
    for number in range(60):
        note = notes[number % len(notes)]
        text += f"\n\n= = = = = Part {number} = = = = =\n\n"
        stored += f"Part {number}\n\n"
        asked.append((len(text), len(stored)))
        text += note
        stored += "Ask first.\n\n"
    texts = CorpusTexts({"d": text})
    assert texts.is_ambiguous("d", "Ask first.")
    assert not texts.is_ambiguous("d", "Part 12")
    for number, (place, start) in enumerate(asked):
        span = texts.locate("d", "Ask first.", near=start, stored=stored)
        assert span is not None
        assert place <= span[0] < span[1] <= place + len(notes[number % len(notes)])
        passage = RetrievedChunk("d", "Ask first.", start, stored)
        assert score_query([passage], {"d": [(place, place + 10)]}, texts).recall >= 0.8


@pytest.mark.parametrize("stored", ["", "Ask first.", "Ask first.\nAsk first.\nAsk first.", "Not so.\nAsk first."])
def test_locate_repeated_passage_with_other_count_returns_nearest(stored: str) -> None:
    texts = CorpusTexts({"d": "Ask first.\nNot so.\nAsk first."})
    assert texts.locate("d", "Ask first.", near=0, stored=stored) == (0, 10)
    assert texts.locate("d", "Ask first.", near=11, stored=stored) == (19, 29)


def characters(ranges: list[Range]) -> set[int]:
    return {place for start, end in ranges for place in range(start, end)}


def test_merged_ranges_equal_sets_of_characters() -> None:
    rng = random.Random(5)
    for _ in range(300):
        left, right = (
            [(start, start + rng.randint(1, 9)) for start in rng.choices(range(60), k=rng.randint(0, 8))]
            for _ in range(2)
        )
        assert characters(merge_ranges(left)) == characters(left)
        assert merge_ranges(merge_ranges(left)) == merge_ranges(left)
        assert count_overlap(merge_ranges(left), merge_ranges(right)) == len(characters(left) & characters(right))


TEN = CorpusTexts({"d": "abcdefghijklmnopqrst", "e": "0123456789"})


@pytest.mark.parametrize(
    ("passages", "expected"),
    [
        ([], ExcerptScores(0, 0, 0, 0)),
        ([RetrievedChunk("d", "abcd")], ExcerptScores(4 / 8, 4 / 4, 4 / 8, 0)),
        ([RetrievedChunk("d", "cdefgh")], ExcerptScores(2 / 8, 2 / 6, 2 / 12, 0)),
        # A repeated passage is retrieved twice and hit once.
        ([RetrievedChunk("d", "abcd"), RetrievedChunk("d", "cdef")], ExcerptScores(4 / 8, 4 / 8, 4 / 12, 0)),
        (
            [RetrievedChunk("d", "mnop"), RetrievedChunk("e", "0123"), RetrievedChunk("d", "abcd")],
            ExcerptScores(1, 8 / 12, 8 / 12, 0),
        ),
        # A passage that no document contains, and one of an unknown document, count as retrieved.
        ([RetrievedChunk("d", "abcd"), RetrievedChunk("d", "????")], ExcerptScores(4 / 8, 4 / 8, 4 / 12, 1)),
        ([RetrievedChunk("d", "abcd"), RetrievedChunk("x", "????")], ExcerptScores(4 / 8, 4 / 8, 4 / 12, 0)),
        ([RetrievedChunk("e", "abcd")], ExcerptScores(0, 0, 0, 1)),
    ],
    ids=range(8),
)
def test_score_query_equals_hand_computed_scores(passages: list[RetrievedChunk], expected: ExcerptScores) -> None:
    wanted = TEN.locate_references(
        [ExcerptReference(document="d", span=(0, 4)), ExcerptReference(document="d", text="mnop")]
    )
    assert score_query(passages, wanted, TEN) == expected


def test_score_query_overlapping_excerpts_of_two_documents() -> None:
    references = [ExcerptReference(document="d", span=(0, 6)), ExcerptReference(document="d", span=(4, 8))]
    wanted = TEN.locate_references([*references, ExcerptReference(document="e", text="01")])
    assert wanted == {"d": [(0, 8)], "e": [(0, 2)]}
    assert score_query([RetrievedChunk("e", "0123")], wanted, TEN) == ExcerptScores(2 / 10, 2 / 4, 2 / 12, 0)


def test_locate_references_missing_excerpt_is_refused() -> None:
    with pytest.raises(DatasetError, match="document d"):
        TEN.locate_references([ExcerptReference(document="d", text="nothing of it")])


def test_locate_references_excerpt_beyond_document_is_cut() -> None:
    """Otherwise characters that no passage can contain would count as missed."""
    assert TEN.locate_references([ExcerptReference(document="d", span=(12, 20))]) == {"d": [(12, 20)]}
    for span in ((12, 21), (50, 60)):
        with pytest.raises(DatasetError, match=f"a reference ends at {span[1]}, and document d at 20"):
            TEN.locate_references([ExcerptReference(document="d", span=span)])
    assert TEN.locate_references([ExcerptReference(document="not in the corpus", span=(12, 21))]) == {
        "not in the corpus": [(12, 21)]
    }

"""Ends of sentences, and full stops that end none."""

import pytest

from app.lexical.sentences import find_sentence_spans


@pytest.mark.parametrize(
    "sentences",
    [
        ["One ends. ", "Two ends! ", "Three ends? ", "Four ends… ", "Five."],
        ["Really?! ", "Yes."],
        ['He said "no." ', "She said (yes!) ", "Both left."],
        ["See Fig. 3 and Figs. 4, cf. Ref. 5, by Dr. Who and Prof. J. Doe et al. "],
        ["Man nennt z.B. A. Meier d.h. ihn, vgl. "],
        ["The ref. ", "Capital beginnings count, Adr. ", "No abbreviation."],
        ["It costs 3.50 a piece, or v1.2.3 of it"],
        ["It ends. not here, before a small letter. ", "But here."],
        ["今日は晴れ。", "明日は雨!", "「本当?」", "はい。"],
        ["今日は晴れ！", "明日は雨？！", "「本当！」", "はい｡", "終わり"],
        ["日本語。", "English follows. ", "Then it ends。"],
        ["यह एक है। ", "यह दो है॥ ", "तीन"],
        ["هل هذا؟ ", "نعم۔ ", "طيب"],
        [""],
    ],
)
def test_find_sentence_spans_returns_sentences(sentences: list[str]) -> None:
    text = "".join(sentences)
    spans = find_sentence_spans(text, 0, len(text))
    assert [text[start:end] for start, end in spans if start < end] == [one for one in sentences if one]


def test_find_sentence_spans_of_part_equals_whole() -> None:
    text = "Skipped. One. Two. Skipped"
    assert list(find_sentence_spans(text, 9, 18)) == [(9, 14), (14, 18)]

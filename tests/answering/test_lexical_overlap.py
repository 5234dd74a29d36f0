"""Sources chosen by the words that they share with an answer."""

import pytest

from app.answering.lexical_overlap import compute_overlap_ratios, find_overlapping_texts

VANS = "A transporter costs ninety euros a day."
LEAVE = "Parental leave lasts fourteen weeks."
BOTH = "A transporter costs ninety euros. Parental leave lasts fourteen weeks."


@pytest.mark.parametrize(
    ("answer", "texts", "found"),
    [
        ("It costs ninety euros a day.", [VANS, LEAVE], [0]),
        ("The leave lasts for fourteen weeks.", [VANS, LEAVE], [1]),
        ("Ninety euros; and parental leave of fourteen weeks.", [VANS, LEAVE, BOTH], [2, 1]),
        ("Costing ninety euros.", [LEAVE, VANS, VANS], [1, 2]),
        ("Nobody knows.", [VANS, LEAVE], []),
        ("It is what it is.", [VANS, LEAVE], []),
        ("", [VANS], []),
        ("Ninety euros.", [], []),
    ],
)
def test_overlapping_texts_are_ordered_and_chance_matches_dropped(
    answer: str, texts: list[str], found: list[int]
) -> None:
    assert find_overlapping_texts(answer, texts, languages=["english"]) == found


def test_overlap_ratio_is_share_of_answer_terms() -> None:
    assert compute_overlap_ratios("ninety euros tomorrow morning", [VANS, LEAVE, ""], languages=["english"]) == [
        0.5,
        0.0,
        0.0,
    ]
    assert compute_overlap_ratios("the and of", [VANS], languages=["english"]) == [0.0]


def test_overlap_uses_language_of_documents() -> None:
    texts = ["Der Transporter kostet neunzig Euro für einen Tag.", "Die Kaution ist für den ganzen Monat."]
    answer = "Für den ganzen Tag kosten die Transporter neunzig Euro."
    assert find_overlapping_texts(answer, texts, languages=["german"]) == [0]
    assert find_overlapping_texts(answer, texts, languages=["english", "german"]) == [0]
    assert find_overlapping_texts("ninety euros", [VANS], languages=[]) == [0]

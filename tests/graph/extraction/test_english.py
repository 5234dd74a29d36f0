"""Names in English texts."""

import pytest

from tests.graph.extraction.chunks import mentions, names


@pytest.mark.capability("graph-names")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He met Anna Smith there.", {"Anna Smith"}),
        ("He met John F. Kennedy there.", {"John F. Kennedy"}),
        ("He read J. R. R. Tolkien there.", {"J. R. R. Tolkien"}),
        ("He read J.R.R. Tolkien there.", {"J.R.R. Tolkien"}),
        ("He saw Conan O'Brien there.", {"Conan O'Brien"}),
        ("He saw Conan O’Brien there.", {"Conan O’Brien"}),
        ("He saw Charles d'Artagnan there.", {"Charles d'Artagnan"}),
        ("He saw d'Artagnan there.", {"d'Artagnan"}),
        ("He met Jean-Paul Sartre there.", {"Jean-Paul Sartre"}),
        ("He met Wernher von Braun there.", {"Wernher von Braun"}),
        ("He met Robin van der Berg there.", {"Robin van der Berg"}),
        ("He met Oscar de la Hoya there.", {"Oscar de la Hoya"}),
        ("He met Osama bin Laden there.", {"Osama bin Laden"}),
        ("He met Beyoncé Knowles there.", {"Beyoncé Knowles"}),
        ("He met Antonín Dvořák there.", {"Antonín Dvořák"}),
        ("He saw Henry VIII there.", {"Henry VIII"}),
        ("He saw World War II there.", {"World War II"}),
        ("He was at the University of Oxford then.", {"University of Oxford"}),
        ("He saw the Dunkin' Brands logo.", {"Dunkin' Brands"}),
        ("He fought in St. Louis then.", {"St. Louis"}),
        ("He joined the U.S. Army then.", {"U.S. Army"}),
        ("He works at AT&T now.", {"AT&T"}),
        ("He fears al-Qaeda now.", {"al-Qaeda"}),
        ("He drove from Dallas–Fort Worth home.", {"Dallas–Fort Worth"}),
    ],
)
def test_extract_mentions_of_one_name_returns_the_whole_name(text: str, expected: set[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Smith Company pays.", {"Smith Company"}),
        ("In Berlin the rain fell.", {"Berlin"}),
        ("When Anna Smith came, it rained.", {"Anna Smith"}),
        ("Although Anna Smith came, it rained.", {"Anna Smith"}),
        ("Yesterday Anna Smith came.", {"Anna Smith"}),
        ("However, Anna Smith came.", {"Anna Smith"}),
        ("Is Anna Smith here?", {"Anna Smith"}),
    ],
)
def test_extract_mentions_function_words_before_a_name_are_cut_off(text: str, expected: set[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Whales sing.",
        "It rains. Whales sing.",
        "“Whales sing,” he said.",
        '"Whales sing," he said.',
        "- Whales sing\n- Dolphins click",
        "| Whales | Dolphins |\n| Seals | Otters |",
        "It rains! Whales sing? Dolphins click: Seals bark.",
        "Then I left, and I said that I'm here. I've come. Anyway I went.",
        "In March 2020 it rained, on 5 May and on Monday, 12 January 1999.",
        "It was 1999, 3.5 %, 1,000 and 2024-01-15 at 12:30.",
    ],
)
def test_extract_mentions_words_without_evidence_are_no_entities(text: str) -> None:
    assert names(text) == set()


def test_extract_mentions_first_word_counts_if_it_is_inside_of_another_sentence() -> None:
    found = mentions("Smith came. Nobody saw Smith. Smith left.")
    assert (found["smith"].count, found["smith"].kind) == (3, "name")


def test_extract_mentions_name_of_the_title_counts_at_the_beginning_of_a_sentence() -> None:
    found = mentions("When Harry Met Sally is a film.", title="When Harry Met Sally")
    assert (found["when harry met sally"].kind, found["when harry met sally"].count) == ("title", 3)
    assert set(found) == {"when harry met sally"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He heard Simon & Garfunkel sing.", {"Simon & Garfunkel", "Simon", "Garfunkel"}),
        ("He saw Anna Smith and Bob Jones there.", {"Anna Smith and Bob Jones", "Anna Smith", "Bob Jones"}),
        ("He saw Anna and Bob and Eve there.", {"Anna", "Bob", "Eve"}),
        ("He saw Mr. Brown there.", {"Mr. Brown", "Brown"}),
        ("He saw Dr. Anna Smith there.", {"Dr. Anna Smith", "Anna Smith"}),
        ("He saw Apollo 11 there.", {"Apollo 11", "Apollo"}),
        ("He needs ISO 9001 now.", {"ISO 9001", "ISO"}),
    ],
)
def test_extract_mentions_parts_of_names_count_too(text: str, expected: set[str]) -> None:
    assert names(text) == expected


def test_extract_mentions_possessive_is_not_part_of_the_name() -> None:
    found = mentions("He took Anna Smith's coat and Anna Smith’s hat.")
    assert {key: mention.count for key, mention in found.items()} == {"anna smith": 2}
    assert found["anna smith"].name == "Anna Smith"


@pytest.mark.parametrize(
    "text",
    [
        "THE SELLER SHALL NOT BE LIABLE FOR ANY DAMAGES.",
        "RENTAL AGREEMENT FOR FLATS\nThe rent is due.",
        "CHAPTER ONE\n\nIT WAS A DARK AND STORMY NIGHT IN LONDON TOWN",
        "This is so. THE BUYER PAYS ALL THE COSTS OF THIS. That is so.",
    ],
)
def test_extract_mentions_sentence_in_capitals_has_no_names(text: str) -> None:
    assert names(text) == set()


def test_extract_mentions_acronyms_are_names() -> None:
    assert names("He works for NASA and the BBC with the US and the IBM PC.") >= {"NASA", "BBC", "US", "IBM PC"}


def test_extract_mentions_break_of_a_long_line_is_inside_of_a_name() -> None:
    text = "He has lived for a very long time in a flat in New\nYork City near the University\nof Oxford."
    assert "New York City" in names(text)
    assert names("- see Anna Smith\n- see Bob Jones") == {"Anna Smith", "Bob Jones"}
    assert names("see Anna Smith\nBob Jones") == {"Anna Smith", "Bob Jones"}

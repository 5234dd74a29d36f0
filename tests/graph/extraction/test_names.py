"""Normalized names, and names in questions."""

import pytest

from app.graph.extraction.names import normalize_name
from app.graph.extraction.query import MAX_QUERY_NAMES, query_names, select_query_names


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Anna Smith", "ANNA  SMITH"),
        ("Anna Smith", "anna-smith"),
        ("Anna Smith", "Anna Smith's"),
        ("Anna Smith", "Anna Smith’s"),
        ("The Beatles", "Beatles"),
        ("A Beautiful Mind", "Beautiful Mind"),
        ("Mercury (planet)", "Mercury"),
        ("Mercury（planet）", "Mercury"),
        ("Simon & Garfunkel", "Simon and Garfunkel"),
        ("Beyoncé", "Beyonce"),
        ("Antonín Dvořák", "Antonin Dvorak"),
        ("Łódź", "Lodz"),
        ("Διονύσης", "Διονυσης"),
        ("U.S. Navy", "US Navy"),
        ("U.S.A.", "USA"),
        ("J. R. R. Tolkien", "J.R.R. Tolkien"),
        ("O’Brien", "O'Brien"),
        ("Straße", "STRASSE"),
        ("ﬁle", "file"),
        ("Ｆ－１６", "F-16"),
        ("Zoe\u0308", "Zoë"),
        ("Jean–Luc", "Jean-Luc"),
        ("“Order of Merit”", "Order of Merit"),
    ],
)
def test_normalize_name_spellings_of_one_name_are_equal(first: str, second: str) -> None:
    assert normalize_name(first) == normalize_name(second) != ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("C", "C++"),
        ("C", "C#"),
        ("C++", "C#"),
        ("max_size", "max size"),
        ("Йод", "Иод"),
        ("が", "か"),
        ("हिन्दी", "हनद"),
        ("Henry VIII", "Henry VII"),
        ("F-16", "F-15"),
    ],
)
def test_normalize_name_different_names_differ(first: str, second: str) -> None:
    assert normalize_name(first) != normalize_name(second)


@pytest.mark.parametrize("name", ["The", "A", "The The", "(Untitled)"])
def test_normalize_name_of_articles_or_a_parenthesis_alone_has_words(name: str) -> None:
    assert normalize_name(name)


@pytest.mark.parametrize("name", ["", " ", "!?", "…", "()", "\u0301"])
def test_normalize_name_without_words_is_at_most_a_mark(name: str) -> None:
    assert len(normalize_name(name)) <= 1


def test_normalize_name_is_bounded_and_stable() -> None:
    for name in ("x" * 5000, "word " * 5000, "É" * 5000, "ﷺ" * 500):
        key = normalize_name(name)
        assert 0 < len(key) <= 200
        assert key == key.strip()


def test_normalize_name_of_a_key_is_the_key() -> None:
    for name in (
        "The Lord of the Rings",
        "Simon & Garfunkel",
        "J. R. R. Tolkien",
        "C++",
        "Beyoncé's",
        "夏目漱石",
        "E-4711",
    ):
        assert normalize_name(normalize_name(name)) == normalize_name(name)


def test_query_names_returns_longest_sequences_first() -> None:
    found = query_names("Who met Anna Smith?")
    assert found[0] == "who met anna smith"
    longer = {"who met anna smith", "met anna smith", "who met anna", "anna smith", "met anna", "who met"}
    assert set(found) == longer | {"who", "met", "anna", "smith"}
    assert [len(each) for each in found] == sorted((len(each) for each in found), reverse=True)


def test_query_names_is_bounded() -> None:
    assert len(query_names("word " * 5000)) <= MAX_QUERY_NAMES
    assert len(query_names(" ".join(map(str, range(5000))))) == MAX_QUERY_NAMES
    assert query_names("Who met Anna?", limit=2) == ["who met anna", "met anna"]
    assert query_names("Who?", limit=0) == query_names("") == query_names("?!") == []


@pytest.mark.parametrize(
    ("question", "existing", "expected"),
    [
        ("Who met Anna Smith?", {"anna smith", "anna", "smith"}, ["anna smith"]),
        ("Did Anna meet Anna Smith?", {"anna smith", "anna"}, ["anna smith", "anna"]),
        ("Who wrote The Lord of the Rings?", {"lord of the rings", "rings"}, ["lord of the rings"]),
        ("Who sang in Simon & Garfunkel?", {"simon and garfunkel", "simon"}, ["simon and garfunkel"]),
        ("What is Anna Smith's age?", {"anna smith"}, ["anna smith"]),
        ("what did obama do", {"obama"}, ["obama"]),
        ("Which film did Anna Smith direct?", {"film", "anna smith"}, ["anna smith"]),
        ("Which Film did Anna Smith direct?", {"film", "anna smith"}, ["anna smith", "film"]),
        ("Is max_size a setting of F-16?", {"max_size", "f 16", "setting"}, ["max_size", "f 16"]),
        ("Does the F-16 use v90?", {"v90"}, ["v90"]),
        ("Why does error E-4711 occur?", {"e 4711", "error"}, ["e 4711"]),
        ("Where is the dark matter of Anna?", {"dark matter"}, ["dark matter"]),
        ("吾輩は猫であるを書いた夏目漱石は", {"吾輩は猫である", "夏目漱石", "猫"}, ["吾輩は猫である", "夏目漱石"]),
        ("김철수는 누구인가", {"김철수"}, ["김철수"]),
        ("Was hat Angela Merkel in Berlin gesagt?", {"angela merkel", "berlin"}, ["angela merkel", "berlin"]),
        ("Who is Beyonce?", {"beyonce"}, ["beyonce"]),
        ("", {"anna"}, []),
        ("Who?", set(), []),
    ],
)
def test_select_query_names_returns_longest_existing_names(
    question: str, existing: set[str], expected: list[str]
) -> None:
    assert select_query_names(question, existing) == expected
    assert select_query_names(question, sorted(existing)) == expected


def test_select_query_names_are_names_of_query_names() -> None:
    question = "Who wrote The Lord of the Rings with Anna Smith?"
    assert set(select_query_names(question, query_names(question))) <= set(query_names(question))

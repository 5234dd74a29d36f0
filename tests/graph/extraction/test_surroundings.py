"""Entities of titles, names of files, headings, metadata and clients, and the limits of a chunk."""

import pytest

from app.graph.extraction.extractor import MAX_MENTIONS_PER_CHUNK, extract_mentions
from app.graph.extraction.titles import list_source_names, read_title
from tests.graph.extraction.chunks import chunk, mentions, names


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Rental agreement", ["Rental agreement"]),
        ("2.1 Rental agreement", ["Rental agreement"]),
        ("1. Rental agreement", ["Rental agreement"]),
        ("IV. Rental agreement", ["Rental agreement"]),
        ("§ 5 Rental agreement", ["Rental agreement"]),
        ("## Rental agreement", ["Rental agreement"]),
        ("Mercury (planet)", ["Mercury (planet)"]),
        ("RENTAL AGREEMENT", ["RENTAL AGREEMENT"]),
        ("price-list_2024.pdf", ["price list 2024"]),
        ("1984 by Orwell", ["1984 by Orwell"]),
        *((each, []) for each in ("", " ", "Introduction", "Untitled", "Chapter 3", "3.2", "Table 1", "Kapitel IV")),
        *((each, []) for each in ("2024", "References", "scan0001.pdf", "Einleitung", "x" * 201)),
    ],
)
def test_read_title_returns_the_title_unless_it_is_generic(title: str, expected: list[str]) -> None:
    assert read_title(title) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("price-list_2024.pdf", ["price list 2024"]),
        ("folder/RentalAgreement.docx", ["Rental Agreement"]),
        ("https://example.com/a/rental_agreement.html", ["rental agreement"]),
        ("IMG_20240115.png", []),
        ("4f3a9c21d7.bin", []),
        ("document.pdf", []),
        ("index.html", []),
        ("upload", []),
        ("", []),
    ],
)
def test_list_source_names_returns_names_that_people_gave(name: str, expected: list[str]) -> None:
    assert list_source_names(name) == expected


def test_extract_mentions_surroundings_have_kinds_and_count_two() -> None:
    found = mentions(
        "rain fell.",
        title="Alpha",
        source_name="beta_plan.pdf",
        headings=("1. Gamma", "Delta"),
        metadata={"customer": "Epsilon Ltd", "tags": ["Zeta", "Eta", 7], "other": "Theta", "n": 5, "flag": True},
        metadata_keys=["customer", "tags", "n", "flag", "missing"],
        given=("Iota", " "),
    )
    assert {each.name: (each.kind, each.count) for each in found.values()} == {
        "Alpha": ("title", 2),
        "beta plan": ("source", 2),
        "Gamma": ("heading", 2),
        "Delta": ("heading", 2),
        "Epsilon Ltd": ("metadata", 2),
        "Zeta": ("metadata", 2),
        "Eta": ("metadata", 2),
        "Iota": ("given", 2),
    }


def test_extract_mentions_entity_of_several_sources_is_one_entity() -> None:
    found = mentions("I saw Anna Smith.", title="Anna Smith", headings=("Anna Smith",), given=("anna smith",))
    assert {key: (each.kind, each.count) for key, each in found.items()} == {"anna smith": ("given", 3)}


def test_extract_mentions_selects_titles_then_counts_then_places() -> None:
    text = "He met Bob Jones and Carl Meyer, then Dora Klein; and Carl Meyer again."
    ordered = extract_mentions(chunk(text, title="Zeta"), metadata_keys=())
    assert [each.name for each in ordered] == [
        "Zeta",
        "Carl Meyer",
        "Bob Jones",
        "Bob Jones and Carl Meyer",
        "Dora Klein",
    ]
    assert [each.name for each in extract_mentions(chunk(text, title="Zeta"), metadata_keys=(), limit=2)] == [
        "Zeta",
        "Carl Meyer",
    ]


def word(number: int) -> str:
    """Return a different capitalized word for each number."""
    letters = ""
    for _ in range(5):
        number, digit = divmod(number, 26)
        letters += chr(97 + digit)
    return letters.capitalize() + "q"


@pytest.mark.parametrize("separator", [" ", ", ", " and ", ". ", "\n", " of ", "; the "])
def test_extract_mentions_of_many_capitalized_words_is_bounded(separator: str) -> None:
    text = separator.join(map(word, range(20_000)))
    found = extract_mentions(chunk(text), metadata_keys=())
    assert len(found) <= MAX_MENTIONS_PER_CHUNK
    assert all(len(each.name) <= 200 and 0 < len(each.key_text) <= 200 for each in found)


def test_extract_mentions_count_is_bounded() -> None:
    assert mentions("; the Smith " * 8_000)["smith"].count == 8_000


def test_extract_mentions_empty_chunk_has_no_entities() -> None:
    assert names("") == set()
    assert names(" \n\t ") == set()
    assert names("Ω" * 3) == set()


@pytest.mark.parametrize("text", ["Zoe\u0308 Smith", "Zoë Smith"])
def test_extract_mentions_names_are_in_nfc(text: str) -> None:
    assert names(f"he saw {text} there") == {"Zoë Smith"}


def test_extract_mentions_names_have_no_characters_that_the_database_refuses() -> None:
    assert names("rain", given=("Anna\x00 Smith", "Bob\ud800 Jones", "Carl\u200b\n Meyer")) == {
        "Anna Smith",
        "Bob\ufffd Jones",
        "Carl Meyer",
    }
